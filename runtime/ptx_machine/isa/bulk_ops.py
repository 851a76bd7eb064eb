"""Operations of the bulk family, and what an entry of the queue of copies holds."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.isa.memory_ops import ATOMS

(
    TMA_LOAD, TMA_STORE, TMA_REDUCE, TMA_PREFETCH,
    BULK_LOAD, BULK_STORE, BULK_REDUCE, BULK_COPY, BULK_PREFETCH, BULK_COMMIT, BULK_WAIT,
    CP_ASYNC, CP_COMMIT, CP_WAIT, CP_ARRIVE, ST_ASYNC, MAP_REPLACE, MAP_COPY,
) = range(18)  # fmt: skip

# MODE of TMA_*: an im2col copy; the multicast mask is in D. Of BULK_WAIT: sources read is enough.
IM2COL, MULTICAST = 1, 2
READ_ONLY = 1
# MODE of CP_ASYNC: C is a predicate, X1 its negation: the source is ignored, zeros are written.
IGNORE = 1
# MODE of CP_ARRIVE: the arrival is one of those that the barrier counts.
NOINC = 1
# MODE of BULK_COPY and ST_ASYNC: MODE2 and TYPE say how what was there is changed.
REDUCES = 4
# MODE of MAP_REPLACE: the column (MAP_...) that is replaced; X0 is added to the value. With a box,
# the value is divided by the element stride. X1: the type of elements, with MAP_TYPE.
# The second number of an F_TENSORMAP fault: the coordinate is no multiple of 16 bytes.
OFF_GRANULE = -16
# A store whose first element lies before the tensor.
BEFORE = -17
# The second number of an F_BOUNDS fault: a mask that names blocks which the cluster lacks; an
# mbarrier, or the source of a store, in another block. Of F_ALIGN: a size, not an address.
NO_SUCH_BLOCK, BARRIER_ELSEWHERE, SOURCE_ELSEWHERE = -1, -2, -3
SIZE_OFF_GRANULE = -4
# MODE2 of *_REDUCE: as of ATOM.
REDUCTIONS = ATOMS[:8]

# ------------------------------------------------------------------ a tensor map
# In kernel parameters (128 bytes): MAGIC, and the number of a row of M.maps.
MAGIC = 0x54454E534F524D41
(
    MAP_ADDRESS, MAP_RANK, MAP_BYTES, MAP_SWIZZLE, MAP_IM2COL, MAP_TYPE,
    MAP_EXTENT, _1, _2, _3, _4,  # innermost first, in elements
    MAP_STRIDE, _6, _7, _8, _9,  # bytes; that of the innermost is the element's
    MAP_BOX, _11, _12, _13, _14,  # elements that arrive; im2col: channels, pixels
    MAP_STEP, _16, _17, _18, _19,  # element strides
    MAP_LOWER, _21, _22,  # im2col: corners of the box of window origins, W first
    MAP_UPPER, _24, _25,
) = range(32)  # fmt: skip
MAP_COLUMNS = 32

# ------------------------------------------------------------------ an entry of the queue
(
    Q_KIND,  # one of the operations above
    Q_WARP, Q_LANE, Q_ROW,
    Q_GROUP,  # bulk or cp.async group of the thread
    Q_BLOCK, Q_OFFSET,  # shared memory: destination of loads, source of stores
    Q_HOST,  # host address of global memory, or of the value of st.async
    Q_BYTES,
    Q_MAP,  # row of M.maps
    Q_COORDS, _q1, _q2, _q3, _q4,
    Q_SHIFT, _q6, _q7,  # im2col offsets
    Q_BARRIER, Q_BARRIER_OFFSET,  # block and offset of the mbarrier, -1: none
    Q_MASK,  # ranks that a multicast goes to
    Q_HOW, Q_TYPE,  # reduction and its type
    Q_BUFFER,  # what a store has read already: slot + 1, or 0
    Q_SOURCE_BLOCK, Q_SOURCE,  # of a copy between shared memories
    # cp.async: bytes that are read, the others are zero. Reductions: bytes of an element; 0 in a
    # BULK_COPY or ST_ASYNC that is none.
    Q_VALID,
    Q_MODE,
    Q_PLACED,  # bytes of shared memory that it covers, gaps between rows included
    Q_ISSUED,  # the step (of M.instructions) at which it was issued
) = range(30)  # fmt: skip
Q_COLUMNS = 32
QUEUE = 1024  # entries
BUFFERS = 62  # stores that have read their source and not yet written
BUFFER_BYTES = 1 << 18
