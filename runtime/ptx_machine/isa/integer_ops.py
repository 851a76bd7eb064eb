"""Operations of the integer family."""

from __future__ import annotations

(
    ADD, SUB, MUL_LO, MUL_HI, MUL_WIDE, MAD_LO, MAD_HI, MAD_WIDE, MUL24_LO, MUL24_HI,
    MAD24_LO, MAD24_HI, SAD, DIV, REM, ABS, NEG, MIN, MAX,
    POPC, CLZ, BFIND, FNS, BREV, BFE, BFI, BMSK, SZEXT, DP4A, DP2A,
    AND, OR, XOR, NOT, CNOT, LOP3, SHF, SHL, SHR, PRMT, SELP, SLCT, MOV,
    ADD_X2, SUB_X2, MIN_X2, MAX_X2, NEG_X2,
    SETP, SET, CARRY, VIDEO,
) = range(52)  # fmt: skip

# MODE of ADD, SUB, MAD, MIN, MAX: saturate; clamp negative results to zero.
SAT, RELU = 1, 2
# MODE of MUL_WIDE...: nothing. Of SHF: left or right, and what happens beyond 32.
SHF_LEFT, SHF_WRAP = 1, 2
# MODE of BFIND: the shift that brings the bit to the top, instead of its place.
SHIFT_AMOUNT = 1
# MODE of BMSK and SZEXT: clamp instead of wrap.
CLAMP = 1
# MODE of PRMT.
PRMT_MODES = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
# MODE of SETP and SET: the comparison. MODE2: what the result is combined with.
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
COMBINE = ("", "and", "or", "xor")
# MODE of CARRY: which of the operations with a carry; MODE2: bit 0 takes it, bit 1 leaves it.
CARRY_ADD, CARRY_SUB, CARRY_MAD_LO, CARRY_MAD_HI = range(4)
# MODE of VIDEO: which, whether of bytes, signs of A, B, D, saturate, add up, and the comparison.
VIDEOS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
V_BYTES, V_SIGNED_A, V_SIGNED_B, V_SIGNED_D, V_SAT, V_ADD = 8, 16, 32, 64, 128, 256
V_COMPARISON = 9  # shift
