"""Runs a program on a grid of blocks: memory for its state, cluster after cluster."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledsl.errors import LaunchError
from tiledsl.runtime.ptx_machine import printing
from tiledsl.runtime.ptx_machine.core.sizes import (
    AGENTS,
    CLUSTER_WORDS,
    COUNTS,
    MEETINGS,
    NAMED,
    NAMED_WORDS,
    RECORDS,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.state import MACHINE_DTYPE, WARP_DTYPE
from tiledsl.runtime.ptx_machine.core.tensor_state import tensor_buffers
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    BUFFER_BYTES,
    BUFFERS,
    MAP_COLUMNS,
    MAP_REPLACE,
    Q_COLUMNS,
    QUEUE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.loading import load
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.names import Names
from tiledsl.runtime.ptx_machine.opcodes import (
    BULK,
    FAMILY,
    OP,
    POLICIES,
    RANK_SHIFT,
    SHARED_BASE,
)
from tiledsl.runtime.ptx_machine.program import Program
from tiledsl.runtime.ptx_machine.report import fault_error
from tiledsl.runtime.ptx_machine.residency import asking_rows, run_together

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.profile import Profile

__all__ = ["Launch", "Result", "run"]

Array = np.ndarray[Any, Any]
OBJECTS = 1024  # mbarriers and other things to synchronise on, of the blocks of a cluster
PRINTS = 4096
MAPS = 4096  # changes of tensor maps by tensormap.replace, in a launch
MAX_SHARED = 232448  # bytes that a block may have; the driver keeps 1024 more


@dataclass(slots=True)
class Launch:
    """How to run a program.

    Attributes:
        grid, block, cluster: extents along x, y, z.
        parameters: the bytes of the kernel's parameters.
        memory: what the program may reach.
        maps: int64 [n, MAP_COLUMNS], the tensor maps in the parameters.
        dynamic_shared: bytes of dynamic shared memory.
        policy: "eager", "late", "random" or "pct": see opcodes.POLICIES.
        seed: of all that is random: schedules, and what memory and registers hold at first.
        checks: races, accesses in flight, fences; without them only values.
        budget: instructions of warps, over the whole launch.
        together: run all blocks at once, for blocks that wait on each other; None: where a loop of
            the program does nothing but ask for a word in global memory, and the grid is small.
        registers: of a thread at launch, for setmaxnreg; 0 if that is not known.
        profile: count bank conflicts and waits, too.
        names: what things are called in messages.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    parameters: bytes = b""
    memory: GlobalMemory = field(default_factory=GlobalMemory)
    maps: Array | None = None
    dynamic_shared: int = 0
    policy: str = "late"
    seed: int = 0
    checks: bool = True
    budget: int = 2_000_000_000
    together: bool | None = None
    registers: int = 0
    profile: bool = False
    names: Names = field(default_factory=Names)


@dataclass(slots=True)
class Result:
    """What was counted on the way.

    Attributes:
        instructions: of warps.
        warps, lanes: of each row of the program, how often warps, and lanes, ran it.
        counts: int64 [rows, COUNTS], what else was counted: core/sizes.py.
        prints: what the program printed.
        program: what ran.
        profile: a Profile where the launch asked for one, else None.
    """

    instructions: int
    warps: Array
    lanes: Array
    counts: Array
    prints: list[str]
    program: Program
    profiled: bool = False

    @property
    def profile(self) -> Profile | None:
        from tiledsl.runtime.ptx_machine.profile import profile_of

        return profile_of(self) if self.profiled else None


def run(program: Program, launch: Launch) -> Result:
    """Run a program on all blocks of a grid.

    Raises:
        MachineFault: (a TileError) what the program did wrong: PTX line and Python line.
        LaunchError: a grid, block or cluster that no device takes.
    """
    return _Runner(program, launch).run()


def _replaces_maps(program: Program) -> bool:
    rows = program.rows
    return bool(((rows[:, FAMILY] == BULK) & (rows[:, OP] == MAP_REPLACE)).any())


class _Runner:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self._check()
        self.run_cluster, self.links = load()
        self.threads = int(np.prod(launch.block))
        self.warps = -(-self.threads // 32)
        self.cluster_size = int(np.prod(launch.cluster))
        blocks = int(np.prod(launch.grid))
        self.together = run_together(
            program, launch.together, blocks, self.cluster_size, self.warps
        )
        self.blocks = blocks if self.together else self.cluster_size
        self.objects = max(OBJECTS, 64 * self.blocks)
        self.shared_size = program.shared_size + launch.dynamic_shared
        self.rng = np.random.default_rng(launch.seed)
        self.machine = np.zeros(1, MACHINE_DTYPE)
        self.state = self.machine[0]
        self.buffers: dict[str, Array] = {}
        self.warp_state = np.zeros(self.blocks * self.warps, WARP_DTYPE)
        self.variables = launch.memory.add_variables(program.variables)
        self._allocate()

    def _check(self) -> None:
        launch = self.launch
        if any(extent % size for extent, size in zip(launch.grid, launch.cluster, strict=True)):
            raise LaunchError(
                f"kernel {self.program.name}: a grid of {launch.grid} blocks is no multiple of the"
                f" cluster {launch.cluster}"
            )
        if launch.policy not in POLICIES:
            raise LaunchError(f"policy: expected one of {POLICIES}, got {launch.policy!r}")
        if not isinstance(launch.seed, int | np.integer) or launch.seed < 0:
            raise LaunchError(f"seed: expected a number of at least 0, got {launch.seed!r}")
        total = self.program.shared_size + launch.dynamic_shared
        if total > MAX_SHARED:
            raise LaunchError(f"{total} bytes of shared memory: a block has {MAX_SHARED} at most")

    # ------------------------------------------------------------------ memory of the state

    def _allocate(self) -> None:
        program, state = self.program, self.state
        warps, registers = self.blocks * self.warps, program.registers
        granules = -(-(self.shared_size + 16) // 16)
        stride = granules * 16 + 64
        components = warps * AGENTS
        rows = len(program.rows)
        self._own("code", np.ascontiguousarray(program.rows, np.int64))
        self._own("links", self.links)
        self._own("asking", asking_rows(program))
        self._own("vectors", np.ascontiguousarray(program.vectors, np.int64))
        self._own("regs", np.zeros((warps, registers, 32), np.uint64))
        self._own("shared", np.zeros((self.blocks, stride), np.uint8), align=1024)
        params = np.zeros(len(self.launch.parameters) + 64, np.uint8)
        params[: len(self.launch.parameters)] = np.frombuffer(self.launch.parameters, np.uint8)
        self._own("params", params, align=64)
        self._own("local", np.zeros((warps, 32, max(program.local_size, 8)), np.uint8), align=16)
        self._own("arrays", self.launch.memory.table())
        self._own("ended_blocks", np.zeros(self.blocks, np.int64))
        self._own("meetings", np.zeros((warps, MEETINGS, 3), np.int64))
        self._own("priorities", np.zeros(warps, np.int64))
        self._own("queue", np.zeros((QUEUE, Q_COLUMNS), np.int64))
        maps = self.launch.maps
        maps = np.zeros((0, MAP_COLUMNS), np.int64) if maps is None else maps
        spare = MAPS if _replaces_maps(program) else 0
        self._own("maps", np.vstack([maps, np.zeros((spare, MAP_COLUMNS), np.int64)]))
        self._own("buffers", np.empty(BUFFERS * BUFFER_BYTES, np.uint8))
        self._own("row_buffer", np.zeros(4096, np.uint8))
        self._own("named", np.zeros((self.blocks, 16, NAMED_WORDS), np.int64))
        clusters = self.blocks // self.cluster_size
        self._own("cluster", np.zeros((clusters, CLUSTER_WORDS), np.int64))
        self._own("register_pools", np.zeros(self.blocks, np.int64))
        self._own("phases", np.zeros((self.blocks, 2 * granules, 2), np.int64))
        self._own("clocks", np.zeros((warps, components), np.int64))
        self._own("proxies", np.zeros((warps, components), np.int64))
        self._own("fences", np.zeros((warps, 2, components), np.int64))
        self._own("heard", np.zeros((warps, 2, components), np.int64))
        self._own("agents", np.zeros(components, np.int64))
        self._own("record_counts", np.zeros((self.blocks, granules), np.int32))
        self._own("records", np.empty((self.blocks, granules, RECORDS), np.uint64))
        self._own("record_rows", np.empty((self.blocks, granules, RECORDS), np.int32))
        self._own("objects", np.empty((self.objects, 4, components), np.int64))
        table = self.blocks * (2 * granules + NAMED + 1)
        self._own("inits", np.zeros((self.blocks, 2 * granules, 4), np.int64))
        self._own("object_table", np.zeros(table, np.int32))
        for name, (dtype, shape, first) in tensor_buffers(warps, registers).items():
            self._own(name, np.full(shape, first, dtype))
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
        self._own("half_table", halves)
        for name in ("row_warps", "row_lanes"):
            self._own(name, np.zeros(rows, np.int64))
        self._own("row_counts", np.zeros((rows, COUNTS), np.int64))
        self._own("scratch", np.zeros(256, np.int64))
        self._own("prints", printing.new_records(PRINTS))
        state["prints_limit"] = PRINTS
        for name, value in {
            "policy": POLICIES.index(self.launch.policy),
            "checks": int(self.launch.checks),
            "budget": self.launch.budget,
            "rng": (self.launch.seed * 2654435761 + 12345) & 0x7FFFFFFFFFFFFFFF,
            "nblocks": self.blocks,
            "cluster_size": self.cluster_size,
            "nwarps": self.warps,
            "nthreads": self.threads,
            "nregs": registers,
            "ncode": rows,
            "shared_stride": stride,
            "shared_size": self.shared_size,
            "nparams": len(self.launch.parameters),
            "local_size": max(program.local_size, 8),
            "narrays": len(self.launch.memory.regions),
            "nmaps": len(maps),
            "maps_limit": len(maps) + spare,
            "ncomponents": components,
            "ngranules": granules,
            "objects_limit": self.objects,
            "launch_registers": self.launch.registers,
            "profiling": int(self.launch.profile),
        }.items():
            state[name] = value
        self._templates()

    def _own(self, name: str, data: Array, align: int = 8) -> None:
        """Let a field of the machine point to an array, at a multiple of ``align`` bytes."""
        if data.ctypes.data % align:
            raw = np.empty(data.nbytes + align, np.uint8)
            start = -raw.ctypes.data % align
            moved = raw[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
            moved[...] = data
            data = moved
        self.buffers[name] = data
        self.state[name] = data.ctypes.data

    def _templates(self) -> None:
        """What registers and shared memory hold at first: random bits, NaN as floats."""
        shape = self.buffers["regs"].shape
        poison = self.rng.integers(0, 1 << 63, shape, np.uint64) | np.uint64(0x7F8100017F810001)
        for register, bits in self.program.constants.items():
            poison[:, register, :] = np.uint64(bits & 0xFFFFFFFFFFFFFFFF)
        for register, name in self.program.specials.items():
            poison[:, register, :] = np.uint64(0)
            _ = name
        self.register_template = poison
        shared = self.buffers["shared"]
        self.shared_template = self.rng.integers(0, 256, shared.shape, np.uint8) | np.uint8(0x81)

    # ------------------------------------------------------------------ blocks

    def run(self) -> Result:
        launch = self.launch
        extents = [extent // size for extent, size in zip(launch.grid, launch.cluster, strict=True)]
        clusters = [
            (x, y, z) for z, y, x in itertools.product(*(range(extents[k]) for k in (2, 1, 0)))
        ]
        groups: list[list[tuple[int, int, int]]] = (
            [clusters] if self.together else [[cluster] for cluster in clusters]
        )
        if POLICIES.index(launch.policy) >= 2:
            order = self.rng.permutation(len(groups))
            groups = [groups[int(k)] for k in order]  # the hardware promises no order
        for group in groups:
            if group:
                self._cluster(group)
        state, buffers = self.state, self.buffers
        return Result(
            instructions=int(state["instructions"]),
            warps=buffers["row_warps"],
            lanes=buffers["row_lanes"],
            counts=buffers["row_counts"],
            program=self.program,
            profiled=launch.profile,
            prints=self._prints(),
        )

    def _prints(self) -> list[str]:
        printed = min(int(self.state["printed"]), PRINTS)
        return printing.texts(self.buffers["prints"], printed, self.string)

    def string(self, address: int) -> bytes:
        """The string that ends with a zero byte at an address."""
        return self.launch.memory.read(address, 1 << 16).partition(b"\0")[0]

    def _cluster(self, clusters: Sequence[tuple[int, int, int]]) -> None:
        """Run the blocks of some clusters together."""
        state, buffers, launch = self.state, self.buffers, self.launch
        self.warp_state[...] = 0
        for name in (
            "named",
            "cluster",
            "ended_blocks",
            "register_pools",
            "meetings",
            "phases",
        ):
            buffers[name][...] = 0
        for name, (_, _, first) in tensor_buffers(1, 1).items():
            if name in ("inflight", "inflight_a", "stamps"):
                buffers[name][...] = first
        state["queued"] = state["buffers_used"] = state["impatient"] = 0
        self.warp_state["registers"] = launch.registers
        buffers["shared"][...] = self.shared_template
        buffers["regs"][...] = self.register_template
        self.ids = [
            self._block_id(at, rank) for at in clusters for rank in range(self.cluster_size)
        ]
        self._specials()
        # Threads that a block does not have have ended.
        last = self.threads % 32
        if last:
            for block in range(self.blocks):
                record = self.warp_state[(block + 1) * self.warps - 1]
                record["ended"] = 0xFFFFFFFF & ~((1 << last) - 1)
                record["pc"][last:] = 1 << 30
        code = self._run_compiled()
        if code:
            found = fault_error(self)
            found.prints = tuple(self._prints())
            raise found

    def _run_compiled(self) -> int:
        """Compiled code runs to its end; in a thread of its own, so that Ctrl-C can stop it."""
        if threading.current_thread() is not threading.main_thread():
            return self.run_cluster(self.state, self.warp_state)  # signals come to the main thread
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(self.run_cluster(self.state, self.warp_state)), daemon=True
        )
        thread.start()
        try:
            thread.join()
        except BaseException:
            while thread.is_alive():
                self.state["budget"] = -1  # again and again: the other thread counts it down
                thread.join(0.001)
            raise
        return codes[0]

    def _block_id(self, cluster: tuple[int, int, int], rank: int) -> tuple[int, int, int]:
        x, y, _ = size = self.launch.cluster
        inside = (rank % x, rank // x % y, rank // (x * y))
        a, b, c = (at * n + i for at, n, i in zip(cluster, size, inside, strict=True))
        return a, b, c

    def _specials(self) -> None:
        """Special registers and addresses of variables, which differ from block to block."""
        regs = self.buffers["regs"].reshape(self.blocks, self.warps, -1, 32)
        for register, name in self.program.specials.items():
            regs[:, :, register, :] = self._special(name)
        for register, (name, offset) in self.program.symbols.items():
            if name in self.program.shared:
                at = SHARED_BASE + self.program.shared[name] + offset
                ranks = np.arange(self.blocks, dtype=np.uint64) % np.uint64(self.cluster_size)
                values = (ranks << np.uint64(RANK_SHIFT)) + np.uint64(at)
                regs[:, :, register, :] = values[:, None, None]
            else:
                regs[:, :, register, :] = np.uint64(self.variables[name] + offset)

    def _special(self, name: str) -> Any:
        """Values of a special register: an array that broadcasts to [blocks, warps, 32]."""
        launch = self.launch
        lane = np.arange(32, dtype=np.int64)[None, None, :]
        warp = np.arange(self.warps, dtype=np.int64)[None, :, None]
        thread = warp * 32 + lane
        base, _, axis = name.lstrip("%").partition(".")
        k = "xyz".find(axis) if axis else 0
        if axis == "w" or (axis and k < 0):
            return np.uint64(0)
        block = np.array([at[k] for at in self.ids], np.int64)[:, None, None]
        bx, by, _ = launch.block
        rank = np.arange(self.blocks, dtype=np.int64)[:, None, None] % self.cluster_size
        one = (1 << 32) - 1
        values: dict[str, Any] = {
            "tid": (thread % bx, thread // bx % by, thread // (bx * by))[k],
            "ntid": launch.block[k],
            "ctaid": block,
            "nctaid": launch.grid[k],
            "clusterid": block // launch.cluster[k],
            "nclusterid": launch.grid[k] // launch.cluster[k],
            "cluster_ctaid": block % launch.cluster[k],
            "cluster_nctaid": launch.cluster[k],
            "cluster_ctarank": rank,
            "cluster_nctarank": self.cluster_size,
            "is_explicit_cluster": int(self.cluster_size > 1),
            "laneid": lane,
            "warpid": warp,
            "nwarpid": self.warps,
            "smid": rank,
            "nsmid": 132,
            "gridid": 1,
            "lanemask_eq": 1 << lane,
            "lanemask_lt": (1 << lane) - 1,
            "lanemask_le": (2 << lane) - 1,
            "lanemask_gt": one & ~((2 << lane) - 1),
            "lanemask_ge": one & ~((1 << lane) - 1),
            "total_smem_size": self.shared_size,
            "aggr_smem_size": self.shared_size + SHARED_BASE,
            "dynamic_smem_size": launch.dynamic_shared,
            "reserved_smem_offset_begin": 0,
            "reserved_smem_offset_end": SHARED_BASE,
        }
        return np.asarray(values.get(base, 0)).astype(np.uint64)
