"""The numbers that decoder and interpreter share: columns of a row, types, spaces, faults.

Plain module constants: Numba compiles them in.
"""

from __future__ import annotations

# ------------------------------------------------------------------ families of instructions
# Each has a table in isa/ and a function ``step_<family>`` in core/.
FAMILIES = (
    "control",    # bra, brx.idx, exit, ret, trap, nop
    "integer",    # add ... on integers, logic, shifts, bit fields, prmt, selp, setp, mov
    "floating",   # f16, bf16, f32, f64 and packed arithmetic, setp, approximations
    "convert",    # cvt, pack, unpack
    "memory",     # ld, st, atom, red, cvta, mapa, prefetch
    "warp",       # shfl, vote, match, redux, elect, activemask, bar.warp
    "barrier",    # mbarrier, bar, barrier.cluster, fences, griddepcontrol, setmaxnreg, nanosleep
    "bulk",       # cp.async, cp.async.bulk, TMA, bulk groups, tensormap
    "tensor",     # wgmma, mma, ldmatrix, stmatrix
)  # fmt: skip
CONTROL, INTEGER, FLOATING, CONVERT, MEMORY, WARP, BARRIER, BULK, TENSOR = range(9)

# ------------------------------------------------------------------ columns of a row
(
    OP,        # number of the operation within its family
    FAMILY,
    GUARD,     # register of the guard predicate, or -1
    NEGATED,   # 1: the guard is negated
    TYPE,      # type codes, below
    TYPE2,
    MODE,      # what the family needs: rounding, ftz, sat, comparison...
    MODE2,
    D0, D1,    # registers of results, -1: none or `_`
    A, B, C, D,  # registers of operands, -1: none
    VEC, NVEC,   # a list of registers: program.vectors[VEC : VEC + NVEC]
    VEC2, NVEC2,
    IMM,       # displacement of an address in bytes
    SPACE,     # state space, below
    TARGET,    # row to branch to
    RECONVERGE,  # row where lanes that took different ways meet again, or END
    LINE,      # line of the PTX text
    USED, NUSED,  # registers read or written: vectors[USED : USED + NUSED]
    X0, X1, X2, X3, X4,  # for the family
    NOTED,  # 1: writes a register that some wgmma of the program takes
) = range(31)  # fmt: skip
COLUMNS = 32
END = 1 << 30  # a row number that no program has: behind the last instruction

# ------------------------------------------------------------------ types
TYPES = (
    "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
    "f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2", "f16x2", "bf16x2", "e4m3x2", "e5m2x2",
    "u16x2", "s16x2", "b4x16",
)  # fmt: skip
(
    PRED, B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64,
    F16, BF16, F32, F64, TF32, E4M3, E5M2, F16X2, BF16X2, E4M3X2, E5M2X2,
    U16X2, S16X2, B4X16,
) = range(len(TYPES))  # fmt: skip
BITS = (
    1, 8, 16, 32, 64, 128, 8, 16, 32, 64, 8, 16, 32, 64,
    16, 16, 32, 64, 32, 8, 8, 32, 32, 16, 16,
    32, 32, 64,
)  # fmt: skip
"""Width of each type. A register holds its value's bits, zero-extended to 64."""

TYPE_CODES = {name: code for code, name in enumerate(TYPES)}

# ------------------------------------------------------------------ state spaces and addresses
SPACES = ("generic", "param", "shared", "local", "global", "const")
GENERIC, PARAM, SHARED, LOCAL, GLOBAL, CONST = range(6)
# Generic addresses: the high bits say which window. A shared-window address (32 bits, as in
# registers) is block rank << 24 | offset; a block's own variables start at offset SHARED_BASE, as
# on the H200. The window base is added by cvta. Everything from GLOBAL_BASE on is memory.
PARAM_WINDOW, SHARED_WINDOW, LOCAL_WINDOW, GLOBAL_BASE = 1 << 40, 1 << 41, 1 << 42, 1 << 44
WINDOW_MASK = (1 << 40) - 1
RANK_SHIFT = 24
OFFSET_MASK = (1 << 24) - 1
SHARED_BASE = 1024

# ------------------------------------------------------------------ how a step ends
NEXT, PARK, FAULTED, JUMPED = 0, 1, 2, 3

# ------------------------------------------------------------------ faults
FAULTS = (
    "none",
    "deadlock",               # nothing can run, nothing is under way
    "budget",                 # more instructions than the limit: a loop that polls for ever?
    "trap",                   # the program's own: trap, a failed assertion
    "diverged",               # lanes apart where all must be together
    "out of bounds",          # an address outside any array, variable or window
    "misaligned",
    "read only",              # a store to constant, parameter or read-only memory
    "exited block",           # an access to shared memory of a block that has ended
    "mbarrier",               # not initialised, overflow of counts, not at 8 bytes...
    "barrier",                # bar.sync: other thread counts on one barrier
    "race",                   # two accesses that nothing orders
    "in flight",              # memory that an asynchronous operation reads or writes
    "register in flight",     # a register that a wgmma still reads or writes
    "missing wgmma.fence",
    "missing proxy fence",
    "missing tensor map",     # not a tensor map, or of another rank
    "wgmma",                  # a descriptor that means nothing
    "registers",              # setmaxnreg beyond the pool
    "pending at exit",        # asynchronous work that reads shared memory of a block that ends
    "unsupported",
    "overflow",               # a queue of the machine is too small: its fault, not the program's
)  # fmt: skip
(
    F_NONE, F_DEADLOCK, F_BUDGET, F_TRAP, F_DIVERGED, F_BOUNDS, F_ALIGN, F_READ_ONLY, F_EXITED,
    F_MBARRIER, F_BARRIER, F_RACE, F_IN_FLIGHT, F_REGISTER, F_WGMMA_FENCE, F_PROXY, F_TENSORMAP,
    F_WGMMA, F_REGISTERS, F_PENDING, F_UNSUPPORTED, F_OVERFLOW,
) = range(len(FAULTS))  # fmt: skip

# ------------------------------------------------------------------ scheduling
POLICIES = ("eager", "late", "random", "pct")
EAGER, LATE, RANDOM, PCT = range(4)
"""When asynchronous work happens (at issue; when nothing else can go on; at any time) and which
warp runs: round-robin, round-robin, random slices, always the first by random priorities."""
