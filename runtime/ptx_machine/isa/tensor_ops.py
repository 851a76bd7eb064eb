"""Operations of the tensor family."""

from __future__ import annotations

WGMMA, WG_FENCE, WG_COMMIT, WG_WAIT, MMA, LDMATRIX, STMATRIX, MOVMATRIX = range(8)

# MODE of WGMMA: A in registers; A, B transposed (MN-major); A, B negated. SAT: of integers.
A_REGISTERS, A_TRANSPOSED, B_TRANSPOSED, A_NEGATED, B_NEGATED, SATURATE = 1, 2, 4, 8, 16, 32
# MODE of LDMATRIX, STMATRIX, MOVMATRIX.
TRANSPOSED = 1
# Columns of WGMMA: TYPE of A, TYPE2 of B, X0 of the accumulators, X1 = N, C = scale-d, A and B
# the descriptors; VEC the accumulators, VEC2 the registers of A.
# Columns of MMA: TYPE of A, TYPE2 of B, X0 of C and D, X1 = M, X2 = K; VEC: D, A, B, C one after
# the other, D's registers VEC..; NVEC of D; VEC2: their numbers.
