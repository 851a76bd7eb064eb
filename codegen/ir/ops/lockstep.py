"""Loops over tiles that all blocks of a launch run in step: a hint for speed.

The blocks count in one word of global memory, of which each such loop has its own. They never
need each other: the wait ends by itself, and without it the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tiledsl.codegen.ir.core import Effect, Op, Value, attribute, define, operand
from tiledsl.codegen.ir.ops.tile import I32

Namer = Callable[[Value], str]


@define("grid.pace", effect=Effect.SYNC)
class GridPace(Op):
    """Wait, but not for long, until all blocks have begun this round of a loop over tiles.

    It stands at the head of ``for tile = first to total step step``, in which ``first`` is less
    than ``step`` and each block that deals gets one number of a round: ``tile // step`` is the
    number of the round. ``counter`` names the word that the blocks count in; a pass sets it, and
    removes the operation where nothing is to be kept in step.
    """

    tile: Value = operand()
    step: Value = operand()
    total: Value = operand()
    counter: str = attribute(default="")

    def print_head(self, name: Namer) -> str:
        counter = f' "{self.counter}"' if self.counter else ""
        tile, step, total = name(self.tile), name(self.step), name(self.total)
        return f"grid.pace{counter} {tile} of {total} step {step}"

    def verify(self) -> None:
        for value in self.operands:
            if value.type != I32:
                raise ValueError(f"the numbers of tiles must be int32, got {value.type}")


class _OnCounter(Op):
    counter: str

    def print_head(self, name: Namer) -> str:
        return f'{self.opcode} "{self.counter}"'


@define("grid.enter", effect=Effect.SYNC)
class GridEnter(_OnCounter):
    """This block is about to run the loop whose blocks count in ``counter``."""

    counter: str = attribute()


@define("grid.leave", effect=Effect.SYNC)
class GridLeave(_OnCounter):
    """This block has left the loop. The last block that does so sets the counter back."""

    counter: str = attribute()
