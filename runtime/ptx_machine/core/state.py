"""The state of a run: one record for the machine (a cluster of blocks), one for each warp.

Arrays are addresses of memory that the host owns (machine.py), read with ``u64p(M.regs)[i]``: a
record of numbers keeps every function's signature short, and compiling fast.

Blocks that run together are numbered from 0, cluster by cluster; a warp's number counts over them
all: block * M.nwarps + warp.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

__all__ = ["MACHINE", "MACHINE_DTYPE", "WARPS", "WARP_DTYPE"]

_FIELDS: dict[str, tuple[str, ...]] = {
    "run": (
        "policy",  # opcodes.POLICIES
        "rng",  # state of core.common.random
        "checks",  # 1: races, windows, poison; 0: values only
        "budget",  # instructions of a warp that may still be run
        "instructions",  # run so far, of warps
        "epoch",  # grows with each event that may let a parked lane go on
        "progress",  # grows with each change of memory by a thread
    ),
    "shape": (
        "nblocks",  # that run together: of one cluster, or of several that wait on each other
        "cluster_size",  # blocks of a cluster; block b has rank b % cluster_size in its own
        "nwarps",  # in a block
        "nthreads",  # in a block
        "nregs",  # registers of a lane
    ),
    "program": (
        "code",
        "ncode",
        "vectors",
        "links",  # core/links.py
        "asking",  # i64 [ncode]: rows at which a warp only asks whether something has changed
    ),
    "control": (
        "meetings",  # i64 [warps][MEETINGS][3]: row, lanes, those that have come
        "priorities",  # i64 [warps], for the policy PCT
        "prints",  # i64 [prints_limit][PRINT_WORDS]: what vprintf was given, or 0; printing.py
        "prints_limit",
        "printed",  # how often vprintf was called, also those beyond the limit
    ),
    "memory": (
        "regs",  # u64 [warps][nregs][32]
        "shared",  # bytes [blocks][shared_stride]; offset SHARED_BASE is byte 0
        "shared_stride",
        "shared_size",
        "params",  # bytes, the kernel's parameters
        "nparams",
        "local",  # bytes [warps][32][local_size]
        "local_size",
        "arrays",  # i64 [narrays][4]: address in the machine, bytes, host address, 1 if read-only
        "narrays",
        "array_hint",  # the one that the last access found
        "ended_blocks",  # i64 [blocks]: 1 when all warps of a block have ended
    ),
    # Asynchronous copies under way; core/queue.py says what an entry holds.
    "copies": (
        "queue",  # i64 [QUEUE][Q_COLUMNS]: isa/bulk_ops.py
        "queued",
        "maps",  # i64 [nmaps][MAP_COLUMNS]: tensor maps, by the numbers in the parameters
        "nmaps",
        "maps_limit",  # tensormap.replace makes new ones, up to here
        "buffers",  # bytes [BUFFERS][BUFFER_BYTES]: what stores have read
        "buffers_used",  # a bit for each
        "row_buffer",  # bytes [2048]: a row of a box
    ),
    "barriers": (
        "named",  # i64 [blocks][16][NAMED_WORDS]: core/barrier.py
        "cluster",  # i64 [clusters][CLUSTER_WORDS]
        "impatient",  # how often nothing could happen any more: a try_wait says no once each time
        "launch_registers",  # of a thread, at launch; 0 where that is not known
        "register_pools",  # i64 [blocks]: registers that setmaxnreg.dec has given back
        "phases",  # i64 [blocks][ngranules * 2][2]: phases that the mbarrier at each 8 bytes has
        # completed, and the warps of the cluster (a bit for each of the first 62) in this one
    ),
    # Happens-before of shared memory: core/order.py says what the arrays hold.
    "order": (
        "ncomponents",  # of a vector clock: 3 for each warp of the cluster
        "clocks",  # i64 [warps][ncomponents]
        "proxies",  # i64 [warps][ncomponents]
        "fences",  # i64 [warps][2][ncomponents]: both, as they were at the last fence
        "heard",  # i64 [warps][2][ncomponents]: what relaxed waits have found, for a fence
        "agents",  # i64 [ncomponents]
        "ngranules",  # of 16 bytes, in a block
        "record_counts",  # i32 [blocks][ngranules]
        "records",  # u64 [blocks][ngranules][RECORDS]
        "record_rows",  # i32 [blocks][ngranules][RECORDS]
        "objects",  # i64 [objects_limit][4][ncomponents]
        "nobjects",
        "objects_limit",
        "inits",  # i64 [blocks][ngranules * 2][4]: core/inits.py
        "object_table",  # i32 [blocks][ngranules * 2 + 16], then one for each cluster
    ),
    # core/tensor_state.py gives their shapes.
    "tensor": (
        "wgmma_queue",
        "inflight",
        "inflight_a",
        "stamps",
        "mma_buffer",
        "wgmma_buffer",
        "half_table",  # f32 [65536]: the value of each f16
    ),
    "profile": (
        "profiling",  # 1: count bank conflicts and waits, too
        "scratch",  # i64 [256], for the function that runs
        "row_warps",  # i64 [ncode]: how often a warp ran each row
        "row_lanes",  # i64 [ncode]: lanes that took part
        "row_counts",  # i64 [ncode][COUNTS]: core/sizes.py
    ),
}
_WARP_LANES: dict[str, tuple[str, ...]] = {
    "control": ("pc", "parked"),  # row that each lane is at; the epoch at which it parked, or 0
    "copies": ("bulk_groups", "copy_groups"),  # committed groups of each thread: bulk, cp.async
}
_WARP: dict[str, tuple[str, ...]] = {
    # Masks of lanes: those that have ended, those that wait where ways meet. How many places
    # where ways meet are open (M.meetings), and the lane that the next choice starts from.
    "control": ("ended", "waiting", "nmeetings", "turn", "blocked_at", "finished"),
    # What a parked warp waits for, for reports: row, kind, address or number, parity or count.
    "waits": ("wait_row", "wait_kind", "wait_what", "wait_value"),
    "order": (),
    # Products in flight, committed groups, fences.
    "tensor": ("wgmmas", "wgmma_groups", "wgmma_fences"),
    # Where the warp waits on a named barrier, and came to the cluster's: phase + 1, or 0.
    "barriers": ("bar_phase", "cluster_phase", "registers", "gave_up", "init_fences"),
    # The step at which it began to wait at wait_row, + 1; 0: it does not wait.
    "profile": ("waits_since",),
}

MACHINE_DTYPE = np.dtype(
    [(name, "i8") for names in _FIELDS.values() for name in names]
    # code of opcodes.FAULTS, warp, row, lane (-1: all), and what the fault's message needs
    + [("error", "i8", 8)]
)
WARP_DTYPE = np.dtype(
    [(name, "i8", 32) for names in _WARP_LANES.values() for name in names]
    + [(name, "i8") for names in _WARP.values() for name in names]
)
MACHINE: Any = numba.from_dtype(MACHINE_DTYPE)
WARPS: Any = numba.from_dtype(WARP_DTYPE)[::1]
