"""The launch, tensors in global memory, pipelines' tiles, variables of a role, and printing."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.types import TensorType
from tiledsl.errors import InternalError, InvalidValue, Loc
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import Ring, Tensor
from tiledsl.runtime.emulator.printf import compile_template


@step(tile.BlockId)
def _block_id(cx: Compiler, op: tile.BlockId) -> Step:
    out, axis = cx.slot(op.result), op.axis

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.id[axis]
        return None

    return run


@step(tile.BlockCount)
def _block_count(cx: Compiler, op: tile.BlockCount) -> Step:
    out, axis = cx.slot(op.result), op.axis

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.grid[axis]
        return None

    return run


# ------------------------------------------------------------------------------ tensors


@step(tile.TensorDim)
def _dim(cx: Compiler, op: tile.TensorDim) -> Step:
    out, tensor, axis = cx.slot(op.result), cx.slot(op.tensor), op.axis

    def run(part: Part) -> Signal:
        part.registers[out] = part.registers[tensor].array.shape[axis]
        return None

    return run


def _check_indices(tensor: Tensor, at: tuple[int, ...], loc: Loc) -> None:
    for axis, (index, extent) in enumerate(zip(at, tensor.array.shape, strict=True)):
        if not 0 <= index < extent:
            expected = f"expected 0 to {extent - 1}" if extent else "it has no elements"
            raise InvalidValue(
                f"index {index} is out of range for dimension {axis} of tensor {tensor.name!r},"
                f" which has extent {extent}: {expected}",
                loc,
            )


@step(tile.TensorLoad)
def _tensor_load(cx: Compiler, op: tile.TensorLoad) -> Step:
    out, source, indices, loc = cx.slot(op.result), cx.slot(op.tensor), cx.slots(op.indices), op.loc
    kind = op.tensor.type
    assert isinstance(kind, TensorType)
    is_float = kind.dtype.is_float

    def run(part: Part) -> Signal:
        registers = part.registers
        tensor: Tensor = registers[source]
        at = tuple([registers[index] for index in indices])
        _check_indices(tensor, at, loc)
        element = tensor.array[at]
        registers[out] = element if is_float else element.item()
        return None

    return run


@step(tile.TensorStore)
def _tensor_store(cx: Compiler, op: tile.TensorStore) -> Step:
    value, target, indices, loc = (
        cx.slot(op.value),
        cx.slot(op.tensor),
        cx.slots(op.indices),
        op.loc,
    )

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers = part.registers
            tensor: Tensor = registers[target]
            at = tuple([registers[index] for index in indices])
            _check_indices(tensor, at, loc)
            tensor.array[at] = registers[value]
        return None

    return run


@step(tile.Print)
def _print(cx: Compiler, op: tile.Print) -> Step:
    values = cx.slots(op.values)
    try:
        text, count = compile_template(op.template)
    except ValueError as error:
        raise InternalError(f"print {op.template!r}: {error}", op.loc) from None
    if count != len(values):
        raise InternalError(
            f"print {op.template!r}: {count} conversions for {len(values)} values", op.loc
        )

    def run(part: Part) -> Signal:
        if part.elected("role"):
            line = text([part.registers[value] for value in values])
            part.block.stdout.write(line)
            part.block.result.prints += 1
        return None

    return run


# ---------------------------------------------------------------------- pipelines' tiles


@step(tile.PipelineCreate)
def _create(cx: Compiler, op: tile.PipelineCreate) -> Step:
    out, name = cx.slot(op.result), op.name

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.rings[name]
        return None

    return run


@step(tile.PayloadTile)
def _payload_tile(cx: Compiler, op: tile.PayloadTile) -> Step:
    out, ring_slot, index_slot = cx.slot(op.result), cx.slot(op.ring), cx.slot(op.index)
    array, loc = op.array, op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        ring: Ring = registers[ring_slot]
        index: int = registers[index_slot]
        tiles = ring.tiles[array]
        if not 0 <= index < len(tiles):
            raise InvalidValue(
                f"tile {index} of the payload of pipeline {ring.name!r}: expected 0 to"
                f" {len(tiles) - 1}",
                loc,
            )
        registers[out] = tiles[index]
        return None

    return run


@step(tile.SharedTranspose)
def _transpose(cx: Compiler, op: tile.SharedTranspose) -> Step:
    out, source = cx.slot(op.result), cx.slot(op.tile)

    def run(part: Part) -> Signal:
        part.registers[out] = part.registers[source].transposed()
        return None

    return run


# ------------------------------------------------------------------- variables of a role


def _move(source: int, target: int) -> Step:
    """A variable lives in the slot of the operation that made it."""

    def run(part: Part) -> Signal:
        registers: list[Any] = part.registers
        registers[target] = registers[source]
        return None

    return run


@step(protocol.LocalNew)
def _local_new(cx: Compiler, op: protocol.LocalNew) -> Step:
    return _move(cx.slot(op.init), cx.slot(op.result))


@step(protocol.LocalGet)
def _local_get(cx: Compiler, op: protocol.LocalGet) -> Step:
    return _move(cx.slot(op.local), cx.slot(op.result))


@step(protocol.LocalSet)
def _local_set(cx: Compiler, op: protocol.LocalSet) -> Step:
    return _move(cx.slot(op.value), cx.slot(op.local))


@step(protocol.PartIndex)
def _part_index(cx: Compiler, op: protocol.PartIndex) -> Step:
    out = cx.slot(op.result)

    def run(part: Part) -> Signal:
        part.registers[out] = part.index
        return None

    return run
