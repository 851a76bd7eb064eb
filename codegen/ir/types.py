"""Types of IR values. All are frozen, compare by value and print as in IR text."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import tile_alignment


class Type:
    """Base of all IR types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """One number, the same in every thread of the role."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.short


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape)


@dataclass(frozen=True, slots=True)
class Tile(Type):
    """A tile in the registers of a role.

    ``layout`` is None at tile level; the layout pass sets it (see ``layouts.py``).
    """

    shape: tuple[int, ...]
    dtype: DType
    layout: object | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        layout = f", {self.layout}" if self.layout is not None else ""
        return f"tile<{shape_text(self.shape)}x{self.dtype.short}{layout}>"


@dataclass(frozen=True, slots=True)
class SharedTile(Type):
    """A view of one tile in shared memory.

    ``shape`` is the shape the user sees. ``transposed`` says that the stored tile has the two
    dimensions the other way round (``tile.T``). ``swizzle`` is the XOR span in bytes: 128, 64,
    32, or 0 for none. The stored tile is row major, split into panels ``swizzle`` bytes wide;
    a panel holds all rows, so that a row of a panel is one swizzle span.
    """

    shape: tuple[int, ...]
    dtype: DType
    swizzle: int
    transposed: bool = False

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.shape[::-1] if self.transposed else self.shape

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        flip = ", transposed" if self.transposed else ""
        return f"shared<{shape_text(self.shape)}x{self.dtype.short}, swizzle={self.swizzle}{flip}>"


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor in global memory: an argument of the kernel. Extents are run-time values."""

    dtype: DType
    rank: int

    def __str__(self) -> str:
        return f"tensor<{'x'.join(['?'] * self.rank)}x{self.dtype.short}>"


@dataclass(frozen=True, slots=True)
class TileArray:
    """One named array of tiles in a payload: ``tiles`` of them in each stage.

    Of a kernel's own shared tiles (no ring), ``tiles`` is how many there are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    swizzle: int
    tiles: int = 1

    @property
    def tile_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def pitch(self) -> int:
        """Bytes from one tile of the array to the next: each starts where a copy can start."""
        align = tile_alignment(self.swizzle)
        return -(-self.tile_bytes // align) * align

    def tile_type(self) -> SharedTile:
        return SharedTile(self.shape, self.dtype, self.swizzle)

    def __str__(self) -> str:
        return f"{self.name}: {self.tile_type()}"


@dataclass(frozen=True, slots=True)
class RingType(Type):
    """A pipeline: ``stages`` slots guarded by full/empty mbarrier pairs, with their tiles.

    Slot ``s`` holds tiles ``s * n ... s * n + n - 1`` of an array that has ``n = array.tiles`` a
    stage. ``k_group`` is the number of tiles that arrays have where they do not say otherwise. A
    bare ring has no arrays.
    """

    stages: int
    k_group: int
    arrays: tuple[TileArray, ...]

    @property
    def shared_bytes(self) -> int:
        """Shared memory that the tiles of all stages take."""
        return self.stages * sum(array.tiles * array.pitch for array in self.arrays)

    def __str__(self) -> str:
        if not self.arrays:
            return f"ring<{self.stages} stages>"
        arrays = ", ".join(str(array) for array in self.arrays)
        return f"ring<{self.stages} stages x {self.k_group}, {arrays}>"


@dataclass(frozen=True, slots=True)
class StageType(Type):
    """A stage handle that a producer or consumer holds between acquire and release."""

    side: str  # "producer" or "consumer"
    ring: RingType

    def __str__(self) -> str:
        return f"stage<{self.side}>"


@dataclass(frozen=True, slots=True)
class BarrierType(Type):
    """The address of one mbarrier in shared memory."""

    def __str__(self) -> str:
        return "mbarrier"


@dataclass(frozen=True, slots=True)
class BarriersType(Type):
    """A row of raw mbarriers in shared memory."""

    number: int

    def __str__(self) -> str:
        return f"{self.number} mbarriers"


@dataclass(frozen=True, slots=True)
class WordType(Type):
    """One int32 in shared memory (protocol level)."""

    def __str__(self) -> str:
        return "word"


@dataclass(frozen=True, slots=True)
class NamedBarrierType(Type):
    """A named barrier (``bar.sync``) between roles."""

    def __str__(self) -> str:
        return "named barrier"


@dataclass(frozen=True, slots=True)
class SharedArrayType(Type):
    """Shared tiles of the kernel's own, guarded by no ring."""

    array: TileArray

    def __str__(self) -> str:
        return f"{self.array.tiles} x {self.array.tile_type()}"


@dataclass(frozen=True, slots=True)
class LocalType(Type):
    """A variable of one role (protocol level): ring cursors and pending releases live in these."""

    dtype: DType

    def __str__(self) -> str:
        return f"local<{self.dtype.short}>"


@dataclass(frozen=True, slots=True)
class BufferType(Type):
    """A shared-memory staging buffer of one part of a role (protocol level).

    ``shape`` is (rows, columns) of one box as ``tma.store`` reads it; ``count`` boxes follow
    each other.
    """

    shape: tuple[int, int]
    dtype: DType
    swizzle: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return (
            f"buffer<{self.count} x {shape_text(self.shape)}x{self.dtype.short},"
            f" swizzle={self.swizzle}>"
        )
