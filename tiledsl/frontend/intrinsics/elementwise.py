"""Operands of elementwise operations, brought to one shape and dtype.

An operand is a register tile, a tile of rank 1 with a new axis, or a number, which adapts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith, memory
from tiledsl.codegen.ir.types import Scalar, Tile
from tiledsl.frontend.arithmetic import python_number
from tiledsl.frontend.intrinsics.expanded import ExpandedTile

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Elements = Value | ExpandedTile


def is_elements(x: object) -> bool:
    """Whether ``x`` is a register tile, expanded or not."""
    return isinstance(x, ExpandedTile) or (isinstance(x, Value) and isinstance(x.type, Tile))


def is_operand(x: object) -> bool:
    """Whether ``x`` may stand in an elementwise operation."""
    if isinstance(x, Value):
        return isinstance(x.type, Tile | Scalar)
    return isinstance(x, ExpandedTile) or python_number(x) is not None


def shape_of(x: Elements) -> tuple[int, ...]:
    if isinstance(x, ExpandedTile):
        return x.shape
    assert isinstance(x.type, Tile)
    return x.type.shape


def dtype_of(x: Elements) -> DType:
    return x.dtype if isinstance(x, ExpandedTile) else arith.element_type(x.type)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the operands have in common. With ``axis`` they all wait for the same other extent."""

    extents: tuple[int, ...]
    axis: int | None = None

    def spread(self, cx: Context, x: object, dtype: DType) -> Value:
        """An operand as a tile of this shape; numbers become ``dtype``."""
        if isinstance(x, ExpandedTile):
            if self.axis is not None:
                return x.value
            return cx.emit(memory.Broadcast(x.value, x.axis, self.extents[x.axis]))
        if isinstance(x, Value) and isinstance(x.type, Tile):
            return x
        return cx.emit(arith.Full(cx.scalar(x, dtype), self.extents))

    def finish(self, value: Value) -> Elements:
        """The result of the operation on spread operands."""
        return value if self.axis is None else ExpandedTile(value, self.axis)


def common_shape(cx: Context, what: str, operands: Sequence[object]) -> Shape:
    """The shape that all tiles among the operands have or can be repeated to."""
    expanded = [x for x in operands if isinstance(x, ExpandedTile)]
    tiles = [x for x in operands if isinstance(x, Value) and isinstance(x.type, Tile)]
    if not expanded:
        first = tiles[0]
        for other in tiles[1:]:
            if shape_of(other) != shape_of(first):
                raise _differ(cx, what, first, other)
        return Shape(shape_of(first))
    if not tiles and all(x.axis == expanded[0].axis for x in expanded):
        for x in expanded[1:]:
            if x.length != expanded[0].length:
                raise _differ(cx, what, expanded[0], x)
        return Shape((expanded[0].length,), expanded[0].axis)
    return _whole_shape(cx, what, [*tiles, *expanded])


def _whole_shape(cx: Context, what: str, operands: Sequence[Elements]) -> Shape:
    """Rows and columns: each from an operand that has them, the same in all that do."""
    found: list[tuple[int, Elements] | None] = [None, None]
    for operand in operands:
        shape = shape_of(operand)
        if len(shape) != 2:
            raise _differ(cx, what, operand, operands[-1])
        for axis, extent in enumerate(shape):
            if isinstance(operand, ExpandedTile) and axis == operand.axis:
                continue
            known = found[axis]
            if known is None:
                found[axis] = (extent, operand)
            elif known[0] != extent:
                raise _differ(cx, what, known[1], operand)
    rows, columns = found
    assert rows is not None and columns is not None
    return Shape((rows[0], columns[0]))


def _differ(cx: Context, what: str, a: Elements, b: Elements) -> Exception:
    shapes = (shape_of(a), shape_of(b))
    hint = None
    for x, other in ((a, shapes[1]), (b, shapes[0])):
        if len(other) != 2:
            continue
        if isinstance(x, ExpandedTile):
            if x.length == other[x.axis]:
                right = "x[:, None]" if x.axis == 0 else "x[None, :]"
                hint = f"write {right} for one value per {'row' if x.axis == 0 else 'column'}"
        elif len(shape_of(x)) == 1:
            (length,) = shape_of(x)
            ways = []
            if length == other[1]:
                ways.append("x[None, :] repeats it in every row")
            if length == other[0]:
                ways.append("x[:, None] repeats it in every column")
            hint = " and ".join(ways) or None
    return cx.type_error(
        f"{what} of tiles: expected two tiles of one shape, got shapes {shapes[0]} and {shapes[1]}",
        hint=hint,
    )


def common_dtype(cx: Context, what: str, operands: Sequence[object]) -> DType:
    """The dtype of the tiles among the operands; numbers must adapt to it without loss."""
    tiles = [x for x in operands if is_elements(x)]
    first = tiles[0]
    assert isinstance(first, Value | ExpandedTile)
    dtype = dtype_of(first)
    for other in tiles[1:]:
        assert isinstance(other, Value | ExpandedTile)
        if dtype_of(other) != dtype:
            wider = dtypes.promote(dtype, dtype_of(other)) or dtypes.float32
            raise cx.type_error(
                f"{what} of tiles: expected two tiles of one dtype, got {dtype} and"
                f" {dtype_of(other)}",
                hint=f"convert one of them: tile.to(td.{wider})",
            )
    for x in operands:
        if not is_elements(x):
            _check_number(cx, what, x, dtype, shape_of(first))
    return dtype


def _check_number(
    cx: Context, what: str, number: object, dtype: DType, shape: tuple[int, ...]
) -> None:
    """A number takes the tile's dtype if that loses nothing."""
    known = python_number(number)
    if isinstance(number, Value) and isinstance(number.type, Scalar):
        own = number.type.dtype
        fits = own == dtype or dtypes.promote(own, dtype) == dtype
        if not fits and number not in cx.weak:
            raise cx.type_error(
                f"{what} of a tile and a number: a {own} does not convert to the"
                f" tile's {dtype} by itself",
                hint=f"convert one of them: x.to(td.{dtype}) or tile.to(td.{own})",
            )
    elif isinstance(known, float) and not dtype.is_float:
        raise cx.type_error(
            f"{what} of a tile and a number: {known} does not convert to the tile's"
            f" {dtype} by itself",
            hint="convert the tile first: tile.to(td.float32)",
        )
    elif known is None:
        raise cx.type_error(
            f"{what} of a tile: expected a tile of shape {shape} or a number on"
            f" the other side, got {cx.describe(number)}"
        )


def combine(
    cx: Context, what: str, lhs: object, rhs: object, build: Callable[[Value, Value], Op]
) -> Elements:
    """An operation on two operands, at least one of them a tile."""
    dtype = common_dtype(cx, what, (lhs, rhs))
    shape = common_shape(cx, what, (lhs, rhs))
    left, right = (shape.spread(cx, x, dtype) for x in (lhs, rhs))
    return shape.finish(cx.emit(build(left, right)))


def each(cx: Context, x: Elements, build: Callable[[Value], Value]) -> Elements:
    """A function of the elements of one tile."""
    if isinstance(x, ExpandedTile):
        return ExpandedTile(build(x.value), x.axis)
    return build(x)
