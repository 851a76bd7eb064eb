"""wgmma: asynchronous groups that read shared memory and own their accumulator until retired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tiledsl.codegen.ir.layouts import MMA_ROWS, WgmmaFragment
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import Tile
from tiledsl.errors import InternalError, Loc
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import SharedArray
from tiledsl.runtime.emulator.values import Array, to_float32

# Up to this many multiplications OpenBLAS stays in one thread. More threads gain nothing on tiles,
# and lose a factor of hundreds when other processes want the cores, because they spin.
_ONE_THREAD = 1 << 18


def multiply_add(
    a: NDArray[np.float32], b: NDArray[np.float32], acc: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``acc + a @ b``, in blocks of the 64 rows of one wgmma instruction."""
    (rows, depth), columns = a.shape, b.shape[1]
    width = max(8, _ONE_THREAD // (MMA_ROWS * depth))
    out = np.empty((rows, columns), np.float32)
    for row in range(0, rows, MMA_ROWS):
        left = a[row : row + MMA_ROWS]
        for column in range(0, columns, width):
            block = slice(row, row + MMA_ROWS), slice(column, column + width)
            np.matmul(left, b[:, column : column + width], out=out[block])
    out += acc
    return out


@dataclass(eq=False, slots=True)
class Group:
    """One group in flight, and what stands in the registers of its result meanwhile.

    Attributes:
        a, b: views of shared memory, read when the group runs.
        acc: the accumulator: an array, or the group in flight before it in a chain.
        taken: whether a later group has taken the result as its accumulator.
        retired: whether a ``wgmma.wait`` has seen it finish.
        value: the result, once the group has run.
    """

    part: Part
    a: Array
    b: Array
    acc: NDArray[np.float32] | Group
    loc: Loc
    taken: bool = False
    retired: bool = False
    value: NDArray[np.float32] | None = None
    forced: ClassVar[bool] = True

    @property
    def done(self) -> bool:
        return self.value is not None

    def act(self) -> None:
        """Run, after the groups before it: the groups of a warpgroup run in order."""
        for group in self.part.groups:
            group.run()
            if group is self:
                break

    def run(self) -> None:
        if self.value is None:
            acc = self.acc.value if isinstance(self.acc, Group) else self.acc
            assert acc is not None
            self.value = multiply_add(to_float32(self.a), to_float32(self.b), acc)
            # Let go of the chain, which would grow with the trip count.
            self.acc = self.value


def ready_tile(value: Any, loc: Loc) -> Array:
    """A register tile for reading.

    Raises:
        InternalError: when it is an accumulator in flight.
    """
    if isinstance(value, Group):
        state = "was retired under another name" if value.retired else "is in flight"
        raise InternalError(
            f"{value.part.label} reads an accumulator that {state}: expected the result of a"
            " wgmma.wait",
            loc,
            notes=(("the group was issued here", value.loc),),
        )
    assert isinstance(value, np.ndarray)
    return value


def _take(value: Any, loc: Loc) -> NDArray[np.float32] | Group:
    """An accumulator for the next group of its chain."""
    if isinstance(value, Group):
        if value.taken:
            raise InternalError(
                "an accumulator in flight is taken by a second group: expected a copy made after a"
                " wgmma.wait",
                loc,
                notes=(("the group was issued here", value.loc),),
            )
        value.taken = True
        if value.retired:
            assert value.value is not None
            return value.value
    found: NDArray[np.float32] | Group = value
    return found


@step(protocol.Wgmma)
def _mma(cx: Compiler, op: protocol.Wgmma) -> Step:
    out, a, b, acc = cx.slot(op.result), cx.slot(op.a), cx.slot(op.b), cx.slot(op.acc)
    loc, kind = op.loc, op.acc.type
    assert isinstance(kind, Tile)
    rows = kind.shape[0]
    if isinstance(kind.layout, WgmmaFragment):
        rows = kind.layout.rows
        if kind.layout.parts != cx.parts:
            raise InternalError(
                f"{kind} is dealt to {kind.layout.parts} part(s) of a role that has {cx.parts}", loc
            )

    def run(part: Part) -> Signal:
        registers, result = part.registers, part.block.result
        first = part.index * rows
        left: SharedArray = registers[a]
        right: SharedArray = registers[b]
        for shared in (left, right):
            if shared.generic.writers:
                shared.generic.check(part, shared.name, "multiplies", loc)
        group = Group(
            part, left.array[first : first + rows], right.array, _take(registers[acc], loc), loc
        )
        registers[out] = group
        part.groups.append(group)
        part.block.start(group)
        result.wgmma_groups += 1
        result.most_groups_in_flight = max(result.most_groups_in_flight, len(part.groups))
        return None

    return run


@step(protocol.WgmmaWait)
def _wait(cx: Compiler, op: protocol.WgmmaWait) -> Step:
    values, results = cx.slots(op.values), cx.slots(op.results)
    pairs = tuple(zip(values, results, strict=True))
    pending, loc = op.pending, op.loc

    def run(part: Part) -> Signal:
        groups = part.groups
        while len(groups) > pending:
            group = groups.popleft()
            group.run()
            group.retired = True
        registers = part.registers
        for source, target in pairs:
            value = registers[source]
            if isinstance(value, Group) and value.retired:
                if value.taken:
                    raise InternalError(
                        "wgmma.wait gives out an accumulator that a later group has taken",
                        loc,
                        notes=(("the group was issued here", value.loc),),
                    )
                value = value.value
            registers[target] = value
        return None

    return run
