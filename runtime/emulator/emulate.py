"""Run a protocol-level kernel on NumPy arrays."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from tiledsl.codegen.ir.core import Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.plan import Plan
from tiledsl.errors import InternalError, LaunchError
from tiledsl.runtime.emulator import arith, bulk, control, tensors, wgmma  # noqa: F401
from tiledsl.runtime.emulator.arguments import bind
from tiledsl.runtime.emulator.barriers import Rendezvous
from tiledsl.runtime.emulator.bulk import BulkQueue
from tiledsl.runtime.emulator.compile import RETURN, Coroutine, Program, compile_kernel
from tiledsl.runtime.emulator.deadlock import check_all_taken, deadlock
from tiledsl.runtime.emulator.machine import BlockState, EmulationResult, Part
from tiledsl.runtime.emulator.memory import SharedMemory, check_plan
from tiledsl.runtime.emulator.scheduler import LateScheduler, RandomScheduler, Scheduler, Task


def emulate(
    kernel: Kernel,
    args: Sequence[object],
    *,
    grid: Sequence[int],
    seed: int | None = None,
    stdout: IO[str] | None = None,
) -> EmulationResult:
    """Run ``kernel`` on the CPU, block after block, as the hardware would.

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
    extents = (*grid, 1, 1)[:3]
    check_plan(kernel.plan, kernel.loc)
    values = bind(kernel, args)
    with np.errstate(all="ignore"):  # constants are converted here already
        program = compile_kernel(kernel, preempt=seed is not None)
    template = list(program.template)
    for slot, value in zip(program.params, values, strict=True):
        template[slot] = value
    runner = _Runner(kernel, kernel.plan, program, template, extents, stdout or sys.stdout)
    # Python's order is x fastest; the hardware promises none.
    blocks = [(x, y, z) for z, y, x in itertools.product(*map(range, reversed(extents)))]
    source = random.Random(seed)
    if seed is not None:
        source.shuffle(blocks)
    with np.errstate(all="ignore"):  # a kernel's overflow or NaN is no news to its user
        for block in blocks:
            runner.block(block, LateScheduler() if seed is None else RandomScheduler(source))
    return runner.result


class _Runner:
    """Runs the blocks of one emulation."""

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
        self.rings = [op for op in kernel.body.walk() if isinstance(op, tile.PipelineCreate)]

    def block(self, block: tuple[int, int, int], scheduler: Scheduler) -> None:
        memory = SharedMemory(self.plan)
        rings = {
            op.name: memory.ring(op.name, op.ring, self.plan.counts, op.loc) for op in self.rings
        }
        state = BlockState(
            block, self.grid, memory, rings, scheduler.start, self.result, self.stdout
        )

        def report(tasks: list[Task]) -> Any:
            return deadlock(self.kernel, block, tasks)

        preamble = self._task(
            state, "preamble", 0, Rendezvous(1), self.template, self.program.preamble
        )
        scheduler.run([preamble], report)
        tasks = []
        if preamble.signal != RETURN:
            for role, code in self.program.roles:
                meeting = Rendezvous(role.parts)
                for index in range(role.parts):
                    registers = preamble.part.registers
                    tasks.append(self._task(state, role.name, index, meeting, registers, code))
        scheduler.run(tasks, report)
        scheduler.drain()
        for task in (preamble, *tasks):
            task.part.bulk.write_all()
        for op in self.rings:
            check_all_taken(self.kernel, block, rings[op.name], op.loc)
        self.result.blocks += 1

    @staticmethod
    def _task(
        state: BlockState,
        role: str,
        index: int,
        meeting: Rendezvous,
        registers: list[Any],
        code: Callable[[Part], Coroutine],
    ) -> Task:
        part = Part(role, index, meeting.parts, list(registers), state, meeting, BulkQueue())
        return Task(part, code(part))
