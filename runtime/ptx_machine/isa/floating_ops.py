"""Operations of the floating family."""

from __future__ import annotations

(
    ADD, SUB, MUL, FMA, DIV, MIN, MAX, ABS, NEG, SQRT, RCP, RSQRT, EX2, LG2, SIN, COS, TANH,
    SETP, SET, TESTP, COPYSIGN,
) = range(21)  # fmt: skip

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
# MODE: rounding + flags.
ROUNDING, FTZ, SAT, RELU, NAN, APPROX, XORSIGN, FULL = 7, 8, 16, 32, 64, 128, 256, 512
# MODE2 of SETP and SET: comparison + 32 * what it is combined with.
COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge",
    "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
COMBINE = ("", "and", "or", "xor")
TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
