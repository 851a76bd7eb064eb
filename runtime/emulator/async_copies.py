"""``cp.async``: copies by the threads of a role, of any alignment.

A copy lands at some moment after its issue; that it has is known by the arrival that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.codegen.ir.ops import copy
from tiledsl.errors import InternalError, Loc
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.boxes import load_box
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import SharedArray, Tensor
from tiledsl.runtime.emulator.values import Array


@dataclass(eq=False, slots=True)
class Copy:
    """What one part copies of a tile by ``cp.async``."""

    tensor: Tensor
    coords: tuple[int, ...]
    tile: SharedArray
    target: Array
    part: Part
    loc: Loc
    done: bool = False
    forced: ClassVar[bool] = False

    def act(self) -> None:
        if not self.done:
            load_box(self.tensor.array, self.coords, self.target)
            self.part.block.memory.written(self.tile, self.part, self.loc)
            self.done = True


@dataclass(eq=False, slots=True)
class Arrival:
    """The threads of a part arrive once the copies that they had started have landed."""

    part: Part
    barrier: Mbarrier
    copies: list[Copy]
    loc: Loc
    done: bool = False
    forced: ClassVar[bool] = False

    def act(self) -> None:
        for one in self.copies:
            one.act()
        self.done = True
        self.barrier.arrive(self.part, self.loc, times=self.part.threads)


@step(copy.AsyncCopy)
def _async_copy(cx: Compiler, op: copy.AsyncCopy) -> Step:
    tensor, coords, target = cx.slot(op.tensor), cx.slots(op.coords), cx.slot(op.tile)
    loc = op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        shared: SharedArray = registers[target]
        at = [registers[coord] for coord in coords]
        extent = shared.array.shape[0]
        first, end = (extent * n // part.parts for n in (part.index, part.index + 1))
        at[-shared.array.ndim] += first
        one = Copy(registers[tensor], tuple(at), shared, shared.array[first:end], part, loc)
        part.copies.append(one)
        part.block.start(one)
        part.block.result.copies += part.index == 0
        return None

    return run


@step(copy.AsyncArrive)
def _async_arrive(cx: Compiler, op: copy.AsyncArrive) -> Step:
    barrier, loc = cx.slot(op.barrier), op.loc

    def run(part: Part) -> Signal:
        waits_for = [one for one in part.copies if not one.done]
        part.copies = []
        part.block.start(Arrival(part, part.registers[barrier], waits_for, loc))
        part.block.result.arrivals += 1
        return None

    return run


def check_copies(part: Part) -> None:
    """The part ends.

    Raises:
        InternalError: when copies of which nobody will know may still write to shared memory.
    """
    if part.copies:
        raise InternalError(
            f"{part.label} ends behind {len(part.copies)} cp.async copies that no arrival follows",
            part.copies[0].loc,
        )
