"""IR values as LLVM values: which LLVM type stands for which IR type, and register tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.types import (
    BarrierType,
    BufferType,
    Scalar,
    SharedTile,
    Tile,
    Type,
)
from tiledsl.codegen.nvptx.formats import fp8_bits, round_to
from tiledsl.codegen.nvptx.llvm_ext import BF16, F16, F32, F64, I1, I8, I16, I32, I64
from tiledsl.errors import InternalError

LLVM_TYPES: dict[DType, Any] = {
    dtypes.bool_: I1,
    dtypes.int8: I8,
    dtypes.int16: I16,
    dtypes.int32: I32,
    dtypes.int64: I64,
    dtypes.uint8: I8,
    dtypes.uint16: I16,
    dtypes.uint32: I32,
    dtypes.uint64: I64,
    dtypes.float8_e4m3fn: I8,  # LLVM has no fp8: its bits
    dtypes.float8_e5m2: I8,
    dtypes.float16: F16,
    dtypes.bfloat16: BF16,
    dtypes.float32: F32,
    dtypes.float64: F64,
}


def constant(value: bool | int | float, dtype: DType) -> Any:
    """An LLVM constant, rounded to the dtype."""
    kind = LLVM_TYPES[dtype]
    if not dtype.is_float:
        return kind(int(value))
    if dtype.bits == 8:
        return kind(fp8_bits(value, dtype))
    return kind(round_to(value, dtype))


@dataclass(slots=True)
class RegisterTile:
    """What one thread holds of a register tile, in the order of the layout's values.

    Either ``elements`` is set, one LLVM value each, or ``pairs``: two neighbours packed in one
    32-bit register (16-bit dtypes, LLVM ``<2 x T>``) or one 16-bit register (fp8, ``i16``).
    Conversions make pairs, and stores take them as they are.

    ``nonzero`` (i1, for an accumulator only) says that the elements count only where it is true;
    elsewhere the tile is zero, whatever they hold. See ``control.FreshAccumulators``.
    """

    dtype: DType
    elements: list[Any] | None = None
    pairs: list[Any] | None = None
    nonzero: Any = None

    def unpack(self, builder: Any) -> list[Any]:
        """The elements, taken out of their pairs at the builder's place if need be."""
        if self.nonzero is not None:
            raise InternalError("an accumulator that may not be set yet is read")
        if self.elements is not None:
            return self.elements
        assert self.pairs is not None
        found: list[Any] = []
        for pair in self.pairs:
            if self.dtype.bits == 8:
                found.append(builder.trunc(pair, I8))
                found.append(builder.trunc(builder.lshr(pair, I16(8)), I8))
            else:
                found += [builder.extract_element(pair, I32(half)) for half in (0, 1)]
        return found


def layout_of(tile: Tile) -> WgmmaFragment | SliceLayout:
    """The layout of a register tile, which the layout pass has set."""
    if not isinstance(tile.layout, WgmmaFragment | SliceLayout):
        raise InternalError(f"a register tile without a layout reached the lowering: {tile}")
    return tile.layout


def fragment(tile: Tile) -> WgmmaFragment:
    """The layout of a register tile of rank 2."""
    layout = layout_of(tile)
    if not isinstance(layout, WgmmaFragment):
        raise InternalError(f"expected a register tile of rank 2: {tile}")
    return layout


def machine_types(type: Type) -> list[Any]:
    """The LLVM types of the registers in which one thread holds a value of this type.

    Raises:
        InternalError: for what has no registers (a tensor, a pipeline), so cannot be carried.
    """
    match type:
        case Scalar():
            return [LLVM_TYPES[type.dtype]]
        case Tile():
            return [LLVM_TYPES[type.dtype]] * layout_of(type).values
        case SharedTile() | BarrierType() | BufferType():
            return [I32]
        case _:
            raise InternalError(f"{type} cannot be carried or yielded: it is not held in registers")


def flatten(value: Any, builder: Any) -> list[Any]:
    """The registers of a value, as ``machine_types`` lists them."""
    return value.unpack(builder) if isinstance(value, RegisterTile) else [value]


def unflatten(type: Type, registers: list[Any]) -> Any:
    """The value whose registers are these."""
    if isinstance(type, Tile):
        return RegisterTile(type.dtype, elements=registers)
    (register,) = registers
    return register
