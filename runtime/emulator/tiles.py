"""Register tiles to and from memory by plain loads and stores, and views of register tiles."""

from __future__ import annotations

import numpy as np

from tiledsl.codegen.ir.ops import memory
from tiledsl.codegen.ir.types import Tile
from tiledsl.errors import InternalError, InvalidValue, Loc
from tiledsl.runtime.emulator.boxes import load_box, store_box
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import SharedArray, Tensor
from tiledsl.runtime.emulator.values import Share, numpy_dtype, share_of
from tiledsl.runtime.emulator.wgmma import ready_tile


def _share(cx: Compiler, kind: object, loc: Loc) -> Share:
    """What each part of the role holds of a register tile."""
    assert isinstance(kind, Tile)
    share = share_of(kind.shape, kind.layout)
    if share.parts is not None and share.parts != cx.parts:
        raise InternalError(
            f"{kind} is dealt to {share.parts} part(s) of a role that has {cx.parts}", loc
        )
    return share


# ------------------------------------------------------------------------- shared memory


@step(memory.SharedCreate)
def _shared(cx: Compiler, op: memory.SharedCreate) -> Step:
    out, name = cx.slot(op.result), op.name

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.shared[name]
        return None

    return run


@step(memory.SharedAt)
def _shared_at(cx: Compiler, op: memory.SharedAt) -> Step:
    out, row, index, loc = cx.slot(op.result), cx.slot(op.array), cx.slot(op.index), op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        tiles: list[SharedArray] = registers[row]
        number = registers[index]
        if not 0 <= number < len(tiles):
            raise InvalidValue(
                f"shared tile {number} of {tiles[0].name.rpartition('[')[0]!r}: expected 0 to"
                f" {len(tiles) - 1}",
                loc,
            )
        registers[out] = tiles[number]
        return None

    return run


@step(memory.SharedLoad)
def _shared_load(cx: Compiler, op: memory.SharedLoad) -> Step:
    out, source = cx.slot(op.result), cx.slot(op.tile)
    share = _share(cx, op.result.type, op.loc)

    def run(part: Part) -> Signal:
        tile: SharedArray = part.registers[source]
        part.registers[out] = tile.array[share.rows(part.index)].copy()
        return None

    return run


@step(memory.SharedStore)
def _shared_store(cx: Compiler, op: memory.SharedStore) -> Step:
    value, target, loc = cx.slot(op.value), cx.slot(op.tile), op.loc
    share = _share(cx, op.value.type, loc)

    def run(part: Part) -> Signal:
        tile: SharedArray = part.registers[target]
        tile.array[share.rows(part.index)] = ready_tile(part.registers[value], loc)
        part.block.memory.written(tile, part, loc)
        return None

    return run


# ------------------------------------------------------------------------- global memory


@step(memory.TileLoad)
def _tile_load(cx: Compiler, op: memory.TileLoad) -> Step:
    out, tensor, coords = cx.slot(op.result), cx.slot(op.tensor), cx.slots(op.coords)
    share = _share(cx, op.result.type, op.loc)
    assert isinstance(op.result.type, Tile)
    kind = numpy_dtype(op.result.type.dtype)
    axis = -len(op.shape)

    def run(part: Part) -> Signal:
        registers = part.registers
        source: Tensor = registers[tensor]
        at = [registers[coord] for coord in coords]
        at[axis] += share.first(part.index)
        target = np.empty(share.shape, kind)
        load_box(source.array, at, target)
        registers[out] = target
        return None

    return run


@step(memory.TileStore)
def _tile_store(cx: Compiler, op: memory.TileStore) -> Step:
    value, tensor, coords, loc = (
        cx.slot(op.value),
        cx.slot(op.tensor),
        cx.slots(op.coords),
        op.loc,
    )
    share = _share(cx, op.value.type, loc)
    assert isinstance(op.value.type, Tile)
    axis = -len(op.value.type.shape)

    def run(part: Part) -> Signal:
        registers = part.registers
        target: Tensor = registers[tensor]
        at = [registers[coord] for coord in coords]
        at[axis] += share.first(part.index)
        store_box(target.array, at, ready_tile(registers[value], loc))
        return None

    return run


# ---------------------------------------------------------------------------------- views


@step(memory.Iota)
def _iota(cx: Compiler, op: memory.Iota) -> Step:
    out, axis = cx.slot(op.result), op.axis
    share = _share(cx, op.result.type, op.loc)
    along = [1] * len(share.shape)
    along[axis] = share.shape[axis]
    index = np.arange(share.shape[axis]).reshape(along)
    kind = numpy_dtype(op.dtype)

    def run(part: Part) -> Signal:
        numbers = index + share.first(part.index) if axis == 0 else index
        part.registers[out] = np.broadcast_to(numbers.astype(kind), share.shape)
        return None

    return run


@step(memory.Broadcast)
def _broadcast(cx: Compiler, op: memory.Broadcast) -> Step:
    out, value, axis, loc = cx.slot(op.result), cx.slot(op.value), op.axis, op.loc
    share = _share(cx, op.result.type, loc)

    def run(part: Part) -> Signal:
        line = ready_tile(part.registers[value], loc)
        wide = line[None, :] if axis == 0 else line[:, None]
        part.registers[out] = np.broadcast_to(wide, share.shape)
        return None

    return run
