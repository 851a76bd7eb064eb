"""Operations of the convert family."""

from __future__ import annotations

CVT, CVT_PAIR, CVT_UNPAIR, CVT_PACK, PACK, UNPACK = range(6)

# MODE: rounding (as of floats.py; those to integers, too) and flags.
ROUNDING, FTZ, SAT, RELU, TO_INTEGER, SATFINITE = 7, 8, 16, 32, 64, 128
