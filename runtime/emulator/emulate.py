"""Run a protocol-level kernel on NumPy arrays."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from tiledsl.codegen.ir.core import Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import memory, sync, tile
from tiledsl.codegen.ir.plan import Plan, RolePlan
from tiledsl.errors import InternalError, LaunchError
from tiledsl.runtime.emulator import (
    arith,
    async_copies,
    control,
    copies,
    lockstep,
    tensors,
    tiles,
    wgmma,
)
from tiledsl.runtime.emulator import sync as sync_steps
from tiledsl.runtime.emulator.arguments import bind
from tiledsl.runtime.emulator.barriers import Mbarrier, Named, Rendezvous
from tiledsl.runtime.emulator.bulk import BulkQueue
from tiledsl.runtime.emulator.cluster import BlockId, clusters_of
from tiledsl.runtime.emulator.compile import RETURN, Coroutine, Program, compile_kernel
from tiledsl.runtime.emulator.deadlock import check_all_taken, deadlock
from tiledsl.runtime.emulator.machine import BlockState, EmulationResult, Part
from tiledsl.runtime.emulator.memory import SharedMemory, Word, check_plan
from tiledsl.runtime.emulator.scheduler import LateScheduler, RandomScheduler, Scheduler, Task

# Each says how its operations run.
FAMILIES = (
    arith, async_copies, control, copies, lockstep, sync_steps, tensors, tiles, wgmma,
)  # fmt: skip

_PREAMBLE = RolePlan("preamble", 1, 0, "thread")  # what all warps run before the roles, as one part


def emulate(
    kernel: Kernel,
    args: Sequence[object],
    *,
    grid: Sequence[int],
    seed: int | None = None,
    stdout: IO[str] | None = None,
) -> EmulationResult:
    """Run ``kernel`` on the CPU, cluster after cluster, as the hardware would.

    The blocks of a cluster run together. None of them ends before all of their roles have: a peer
    may still arrive on its barriers.

    Args:
        kernel: at protocol level, with its plan.
        args: one for each of ``kernel.params``: a NumPy array for a tensor (of the parameter's
            dtype and rank, any strides; ml_dtypes for bfloat16 and fp8), which the kernel writes
            in place, and a Python or NumPy number for a scalar.
        grid: blocks along x, y and z: one to three extents.
        seed: None for one fixed schedule, in which loads arrive as late as can be; a number for a
            random one, in which roles interleave and asynchronous operations complete at any
            moment that the hardware allows, and blocks run in any order.
        stdout: where ``print`` writes; ``sys.stdout`` unless given.

    Returns:
        What was counted on the way.

    Raises:
        Deadlock: when no role can go on; it says who waits for whom.
        InvalidValue: an index out of range, an integer division by zero, ...
        StageError: an mbarrier with more arrivals than its phase expects; a stage that was filled
            and that no consumer took.
        TypeMismatch, LaunchError: an argument or a grid that does not fit.
        InternalError: a fault of the compiler, such as a missing ``wgmma.wait``.
    """
    if kernel.level is not Level.PROTOCOL or kernel.plan is None:
        raise InternalError(
            f"the emulator runs protocol-level kernels with a plan: {kernel.name} is at"
            f" {kernel.level.value} level",
            kernel.loc,
        )
    if not 1 <= len(grid) <= 3 or min(grid) < 0:
        raise LaunchError(
            f"kernel {kernel.name}: expected a grid of one to three extents, got {tuple(grid)}"
        )
    x, y, z = (*grid, 1, 1)[:3]
    extents = (x, y, z)
    check_plan(kernel.plan, kernel.loc)
    values = bind(kernel, args)
    with np.errstate(all="ignore"):  # constants are converted here already
        program = compile_kernel(kernel, preempt=seed is not None)
    template = list(program.template)
    for slot, value in zip(program.params, values, strict=True):
        template[slot] = value
    runner = _Runner(kernel, kernel.plan, program, template, extents, stdout or sys.stdout)
    clusters = clusters_of(kernel, extents)
    source = random.Random(seed)
    if seed is not None:
        source.shuffle(clusters)  # the hardware promises no order
    with np.errstate(all="ignore"):  # a kernel's overflow or NaN is no news to its user
        for blocks in clusters:
            runner.cluster(blocks, LateScheduler() if seed is None else RandomScheduler(source))
    return runner.result


class _Runner:
    """Runs the clusters of one emulation."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        program: Program,
        template: list[Any],
        grid: tuple[int, ...],
        stdout: IO[str],
    ) -> None:
        self.kernel = kernel
        self.plan = plan
        self.program = program
        self.template = template
        self.grid = grid
        self.stdout = stdout
        self.result = EmulationResult()
        ops = list(kernel.body.walk())
        self.rings = [op for op in ops if isinstance(op, tile.PipelineCreate)]
        self.mbarriers = [op for op in ops if isinstance(op, sync.MbarrierCreate)]
        self.shared = [op for op in ops if isinstance(op, memory.SharedCreate)]
        self.words = [op for op in ops if isinstance(op, sync.WordCreate)]

    def cluster(self, ids: Sequence[BlockId], scheduler: Scheduler) -> None:
        # All roles' parts meet in a kernel without a preamble, else only the preambles do.
        parts = 1 if self.program.has_roles else sum(role.parts for role, _ in self.program.roles)
        meeting = Rendezvous(parts * len(ids))
        blocks: list[BlockState] = []
        for rank, number in enumerate(ids):
            blocks.append(self._block(number, rank, blocks, meeting, scheduler))

        def report(tasks: list[Task]) -> Any:
            return deadlock(self.kernel, ids, tasks)

        tasks = [self._preamble(block) for block in blocks]
        scheduler.run(tasks, report)
        scheduler.drain()
        for task in tasks:
            task.part.bulk.write_all()
        for block in blocks:
            check_all_taken(self.kernel, block, [*self.rings, *self.mbarriers])
            self.result.blocks += 1

    def _block(
        self,
        block: BlockId,
        rank: int,
        cluster: list[BlockState],
        meeting: Rendezvous,
        scheduler: Scheduler,
    ) -> BlockState:
        plan, shared = self.plan, SharedMemory(self.plan, rank)
        return BlockState(
            id=block,
            grid=self.grid,
            memory=shared,
            rings={op.name: shared.ring(op.name, op.ring, op.loc) for op in self.rings},
            mbarriers={op.name: self._mbarriers(shared, op) for op in self.mbarriers},
            shared={
                op.name: shared.row(op.name, op.array, op.array.tiles, op.loc) for op in self.shared
            },
            named={name: Named(name, named.threads) for name, named in plan.named.items()},
            words={op.name: Word(op.name, op.init) for op in self.words},
            start=scheduler.start,
            result=self.result,
            stdout=self.stdout,
            cluster=cluster,
            rank=rank,
            meeting=meeting,
        )

    def _mbarriers(self, shared: SharedMemory, op: sync.MbarrierCreate) -> list[Mbarrier]:
        count = self.plan.counts.get((op.name, "raw"), op.count or 0)
        return shared.mbarriers(op.name, "raw", op.number, count)

    def _preamble(self, block: BlockState) -> Task:
        """The part that all warps of a block run; its end starts the roles."""
        (task,) = self._tasks(block, _PREAMBLE, self.template, self.program.preamble)

        def roles(ended: Task) -> list[Task]:
            if ended.signal == RETURN:
                return []
            registers = ended.part.registers
            return [
                task
                for role, code in self.program.roles
                for task in self._tasks(block, role, registers, code)
            ]

        task.then = roles
        return task

    @staticmethod
    def _tasks(
        block: BlockState,
        role: RolePlan,
        registers: list[Any],
        code: Callable[[Part], Coroutine],
    ) -> list[Task]:
        """One task for each part of a role."""
        meeting = Rendezvous(role.parts)
        parts = [
            Part(
                role.name,
                index,
                role.parts,
                role.part_threads,
                list(registers),
                block,
                meeting,
                BulkQueue(),
            )
            for index in range(role.parts)
        ]
        return [Task(part, code(part)) for part in parts]
