"""Operations of the memory family."""

from __future__ import annotations

LD, ST, ATOM, CVTA, CVTA_TO, MAPA, RANK_OF, IS_SPACE, PREFETCH, POLICY, ATOM_WIDE = range(11)
# Columns of ATOM_WIDE: VEC lists both halves of the result, then of B, then of C.

# MODE of LD, ST and ATOM: what it orders.
WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, VOLATILE = range(6)
# MODE of IS_SPACE: shared memory of the thread's own block.
OWN_BLOCK = 1
# MODE2 of ATOM.
ATOMS = ("add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas")
A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_INC, A_DEC, A_EXCH, A_CAS = range(10)
