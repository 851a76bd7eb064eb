"""Register tiles to and from memory, shared tiles without a ring, and views of register tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.codegen.ir.core import Effect, Op, Value, attribute, define, operand, operands
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops.tile import I32, at_coords, check_coords
from tiledsl.codegen.ir.types import (
    SharedArrayType,
    SharedTile,
    TensorType,
    Tile,
    TileArray,
    Type,
)

Namer = Callable[[Value], str]


# ------------------------------------------------------------------------------ shared memory


@define("shared.create")
class SharedCreate(Op):
    """Shared tiles of the kernel's own, guarded by no ring: ``array.tiles`` of them.

    ``name`` is unique in the kernel, and names the object in ``plan.shared``.
    """

    name: str = attribute()
    array: TileArray = attribute()

    def result_types(self) -> Sequence[Type]:
        return (SharedArrayType(self.array),)

    def print_head(self, name: Namer) -> str:
        return f"shared.create {self.result.type}"


@define("shared.tile")
class SharedAt(Op):
    """Tile number ``index`` of a kernel's own shared tiles."""

    array: Value = operand()
    index: Value = operand()

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.array.type, SharedArrayType)
        return (self.array.type.array.tile_type(),)

    def print_head(self, name: Namer) -> str:
        return f"shared.tile {name(self.array)}[{name(self.index)}] : {self.result.type}"

    def verify(self) -> None:
        if not isinstance(self.array.type, SharedArrayType):
            raise ValueError(f"expected shared tiles, got {self.array.type}")
        if self.index.type != I32:
            raise ValueError(f"the index must be int32, got {self.index.type}")


def check_view(tile: Type, value: Type) -> None:
    """Raise ``ValueError`` unless a register tile is what a shared tile holds."""
    if not isinstance(tile, SharedTile):
        raise ValueError(f"expected a shared tile, got {tile}")
    if not isinstance(value, Tile):
        raise ValueError(f"expected a register tile, got {value}")
    if tile.shape != value.shape or tile.dtype != value.dtype:
        raise ValueError(f"shapes or dtypes differ: {tile} and {value}")


@define("shared.load", effect=Effect.READ)
class SharedLoad(Op):
    """Read a shared tile into registers, by generic loads of all threads of the role."""

    tile: Value = operand()
    layout: Any = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.tile.type, SharedTile)
        return (Tile(self.tile.type.shape, self.tile.type.dtype, self.layout),)

    def print_head(self, name: Namer) -> str:
        return f"shared.load {name(self.tile)} : {self.result.type}"


@define("shared.store", effect=Effect.WRITE)
class SharedStore(Op):
    """Write a register tile into a shared tile, by generic stores of all threads of the role."""

    value: Value = operand()
    tile: Value = operand()

    def print_head(self, name: Namer) -> str:
        return f"shared.store {name(self.value)} -> {name(self.tile)}"

    def verify(self) -> None:
        check_view(self.tile.type, self.value.type)


# ------------------------------------------------------------------------------ global memory


@define("tile.load", effect=Effect.READ)
class TileLoad(Op):
    """Read a register tile from a tensor, by the threads of the role; zero outside of it.

    ``shape`` has at most the tensor's rank; it takes extent 1 in the leading dimensions. Any
    alignment and any strides.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    shape: tuple[int, ...] = attribute()
    layout: Any = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.tensor.type, TensorType)
        return (Tile(self.shape, self.tensor.type.dtype, self.layout),)

    def print_head(self, name: Namer) -> str:
        return f"tile.load {at_coords(name, self.tensor, self.coords)} : {self.result.type}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        if len(self.shape) > len(self.coords):
            raise ValueError(f"cannot load shape {self.shape} from {self.tensor.type}")


@define("tile.store", effect=Effect.WRITE)
class TileStore(Op):
    """Write a register tile to a tensor, by the threads of the role; nothing outside of it."""

    value: Value = operand()
    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()

    def print_head(self, name: Namer) -> str:
        return f"tile.store {name(self.value)} -> {at_coords(name, self.tensor, self.coords)}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        value, tensor = self.value.type, self.tensor.type
        assert isinstance(tensor, TensorType)
        if not isinstance(value, Tile):
            raise ValueError(f"expected a register tile, got {value}")
        if value.dtype != tensor.dtype or len(value.shape) > tensor.rank:
            raise ValueError(f"cannot store {value} to {tensor}")


# ------------------------------------------------------------------------ views of register tiles


@define("tile.iota")
class Iota(Op):
    """Each element's index along ``axis``."""

    shape: tuple[int, ...] = attribute()
    axis: int = attribute()
    dtype: DType = attribute()
    layout: Any = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        return (Tile(self.shape, self.dtype, self.layout),)

    def print_head(self, name: Namer) -> str:
        return f"tile.iota {self.axis} : {self.result.type}"

    def verify(self) -> None:
        if not 0 <= self.axis < len(self.shape):
            raise ValueError(f"axis {self.axis} of shape {self.shape}")


@define("tile.broadcast")
class Broadcast(Op):
    """A tile of rank 1 repeated along ``axis`` of a tile of rank 2.

    ``x[None, :]`` has axis 0 (every row is x), ``x[:, None]`` axis 1 (every column is x);
    ``extent`` is how often it is repeated. Its layout is that of the result, sliced.
    """

    value: Value = operand()
    axis: int = attribute()
    extent: int = attribute()
    layout: Any = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        tile = self.value.type
        assert isinstance(tile, Tile)
        (length,) = tile.shape
        shape = (self.extent, length) if self.axis == 0 else (length, self.extent)
        return (Tile(shape, tile.dtype, self.layout),)

    def print_head(self, name: Namer) -> str:
        return f"tile.broadcast {name(self.value)}, axis {self.axis} : {self.result.type}"

    def verify(self) -> None:
        if not isinstance(self.value.type, Tile) or len(self.value.type.shape) != 1:
            raise ValueError(f"expected a register tile of rank 1, got {self.value.type}")
        if self.axis not in (0, 1):
            raise ValueError(f"axis {self.axis} of a tile of rank 2")
