"""What the user says: tensors, pipelines, tiles. Everything here is legal at tile level."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import (
    TILE,
    Effect,
    Op,
    Value,
    attribute,
    define,
    operand,
    operands,
)
from tiledsl.codegen.ir.types import (
    BarrierType,
    RingType,
    Scalar,
    SharedTile,
    StageType,
    TensorType,
    Tile,
    Type,
)

Namer = Callable[[Value], str]
I32 = Scalar(dtypes.int32)


def at_coords(name: Namer, tensor: Value, coords: Sequence[Value]) -> str:
    """``%a[%m, %k]``"""
    return f"{name(tensor)}[{', '.join(name(c) for c in coords)}]"


def check_coords(tensor: Value, coords: Sequence[Value]) -> None:
    if not isinstance(tensor.type, TensorType):
        raise ValueError(f"expected a tensor, got {tensor.type}")
    if len(coords) != tensor.type.rank:
        raise ValueError(f"{len(coords)} coordinates for a tensor of rank {tensor.type.rank}")
    for coord in coords:
        if coord.type != I32:
            raise ValueError(f"coordinates must be int32 scalars, got {coord.type}")


# ---------------------------------------------------------------- the launch and its tensors


@define("block.id")
class BlockId(Op):
    """This block's index in the grid along ``axis`` (0, 1 or 2)."""

    axis: int = attribute()

    def result_types(self) -> Sequence[Type]:
        return (I32,)

    def print_head(self, name: Namer) -> str:
        return f"block.id {self.axis}"


@define("block.count")
class BlockCount(Op):
    """The number of blocks in the grid along ``axis``."""

    axis: int = attribute()

    def result_types(self) -> Sequence[Type]:
        return (I32,)

    def print_head(self, name: Namer) -> str:
        return f"block.count {self.axis}"


@define("tensor.dim")
class TensorDim(Op):
    """The extent of a tensor along ``axis``."""

    tensor: Value = operand()
    axis: int = attribute()

    def result_types(self) -> Sequence[Type]:
        return (I32,)

    def print_head(self, name: Namer) -> str:
        return f"tensor.dim {name(self.tensor)}, {self.axis} : i32"


@define("tensor.load", effect=Effect.READ)
class TensorLoad(Op):
    """Read one element, the same for all threads. Out of range is an error of the user."""

    tensor: Value = operand()
    indices: tuple[Value, ...] = operands()

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.tensor.type, TensorType)
        return (Scalar(self.tensor.type.dtype),)

    def print_head(self, name: Namer) -> str:
        return f"tensor.load {at_coords(name, self.tensor, self.indices)} : {self.result.type}"

    def verify(self) -> None:
        check_coords(self.tensor, self.indices)


@define("tensor.store", effect=Effect.WRITE)
class TensorStore(Op):
    """Write one element, by one elected thread of the role."""

    value: Value = operand()
    tensor: Value = operand()
    indices: tuple[Value, ...] = operands()

    def print_head(self, name: Namer) -> str:
        return f"tensor.store {name(self.value)}, {at_coords(name, self.tensor, self.indices)}"

    def verify(self) -> None:
        check_coords(self.tensor, self.indices)
        assert isinstance(self.tensor.type, TensorType)
        if self.value.type != Scalar(self.tensor.type.dtype):
            raise ValueError(f"stores {self.value.type} to {self.tensor.type}")


@define("print", effect=Effect.WRITE)
class Print(Op):
    """Print text, by one elected thread of the role.

    ``template`` has printf conversions (``%d %lld %u %llu %g %x %s``...), one for each value;
    ``%%`` is a percent sign. It brings its own line end. bool_ values print as 0 or 1 through
    ``%d``.
    """

    template: str = attribute()
    values: tuple[Value, ...] = operands()

    def print_head(self, name: Namer) -> str:
        args = "".join(f", {name(value)}" for value in self.values)
        return f"print {self.template!r}{args}"

    def verify(self) -> None:
        for value in self.values:
            if not isinstance(value.type, Scalar):
                raise ValueError(f"prints scalars only, got {value.type}")


@define("launch.require", levels=TILE, effect=Effect.WRITE)
class Require(Op):
    """Refuse the launch unless a condition on extents and scalar arguments holds.

    Evaluated on the host, for each launch; nothing of it is left in the kernel.
    """

    condition: Value = operand()
    message: str = attribute()

    def print_head(self, name: Namer) -> str:
        return f"launch.require {name(self.condition)}"

    def verify(self) -> None:
        if self.condition.type != Scalar(dtypes.bool_):
            raise ValueError(f"the condition must be a bool_ scalar, got {self.condition.type}")


# ------------------------------------------------------------------------------- pipelines


@define("pipeline.create")
class PipelineCreate(Op):
    """A ring of stages with its barriers and tiles. ``name`` appears in reports.

    ``lookahead`` is the number of stages that the producer must get before it fills the oldest of
    them, derived by a pass.
    """

    name: str = attribute()
    ring: RingType = attribute()
    lookahead: int = attribute(default=1)

    def result_types(self) -> Sequence[Type]:
        return (self.ring,)

    def print_head(self, name: Namer) -> str:
        return f"pipeline.create {self.ring}"


class _OnRing(Op):
    ring: Value

    def verify(self) -> None:
        if not isinstance(self.ring.type, RingType):
            raise ValueError(f"expected a pipeline, got {self.ring.type}")


@define("pipeline.acquire_producer", levels=TILE, effect=Effect.SYNC)
class AcquireProducer(_OnRing):
    """Wait until the next slot is empty; the handle of that slot.

    ``nbytes`` are the bytes that the loads on this stage bring, derived by a pass.
    """

    ring: Value = operand()
    nbytes: int | None = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.ring.type, RingType)
        return (StageType("producer", self.ring.type),)


@define("pipeline.acquire_consumer", levels=TILE, effect=Effect.SYNC)
class AcquireConsumer(_OnRing):
    """Wait until the next slot is full; the handle of that slot."""

    ring: Value = operand()

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.ring.type, RingType)
        return (StageType("consumer", self.ring.type),)


class _OnStage(Op):
    stage: Value

    def verify(self) -> None:
        if not isinstance(self.stage.type, StageType):
            raise ValueError(f"expected a stage, got {self.stage.type}")


@define("pipeline.release", levels=TILE, effect=Effect.SYNC)
class Release(_OnStage):
    """Give the stage up: a producer hands it to the consumers, a consumer frees it."""

    stage: Value = operand()


@define("pipeline.expect_bytes", levels=TILE, effect=Effect.SYNC)
class ExpectBytes(_OnStage):
    """State the bytes that the loads on this stage bring; checked against the derived number."""

    stage: Value = operand()
    nbytes: int = attribute()


@define("pipeline.drain", levels=TILE, effect=Effect.SYNC)
class Drain(_OnRing):
    """Producer side: wait until every slot is empty."""

    ring: Value = operand()


@define("stage.index", levels=TILE)
class StageIndex(_OnStage):
    """The slot number of a stage, 0 ... stages - 1."""

    stage: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (I32,)


@define("stage.barrier", levels=TILE)
class StageBarrier(_OnStage):
    """The mbarrier that the other side waits on: full for a producer, empty for a consumer."""

    stage: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (BarrierType(),)


@define("payload.tile")
class PayloadTile(_OnRing):
    """Tile number ``index`` (slot * k_group + k) of array ``array`` of a pipeline's payload."""

    ring: Value = operand()
    index: Value = operand()
    array: int = attribute()

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.ring.type, RingType)
        return (self.ring.type.arrays[self.array].tile_type(),)

    def print_head(self, name: Namer) -> str:
        assert isinstance(self.ring.type, RingType)
        array = self.ring.type.arrays[self.array].name
        return f"payload.tile {name(self.ring)}.{array}[{name(self.index)}] : {self.result.type}"


@define("shared.transpose")
class SharedTranspose(Op):
    """The same shared tile with its two dimensions exchanged. Moves nothing."""

    tile: Value = operand()

    def result_types(self) -> Sequence[Type]:
        tile = self.tile.type
        assert isinstance(tile, SharedTile)
        return (SharedTile(tile.shape[::-1], tile.dtype, tile.swizzle, not tile.transposed),)


# ---------------------------------------------------------------------------- tile operations


@define("tma.load", effect=Effect.WRITE, needs="tma")
class TmaLoad(Op):
    """Start a bulk tensor copy from global to shared memory; it completes on ``barrier``.

    ``coords`` is the first element, one coordinate a dimension; what lies outside of the tensor
    reads as zero and still counts as bytes. Issued by one elected thread of the role. A tile of
    lower rank than the tensor takes extent 1 in the leading dimensions.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    tile: Value = operand()
    barrier: Value = operand()

    def print_head(self, name: Namer) -> str:
        source = at_coords(name, self.tensor, self.coords)
        return f"tma.load {source} -> {name(self.tile)}, {name(self.barrier)}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        tile, tensor = self.tile.type, self.tensor.type
        if not isinstance(tile, SharedTile) or tile.transposed:
            raise ValueError(f"the destination must be a shared tile as stored, got {tile}")
        assert isinstance(tensor, TensorType)
        if tile.dtype != tensor.dtype or len(tile.shape) > tensor.rank:
            raise ValueError(f"cannot load {tensor} into {tile}")


@define("tma.store", levels=TILE, effect=Effect.WRITE, needs="tma")
class TmaStore(Op):
    """Write a register or shared tile to global memory; elements outside are not written."""

    value: Value = operand()
    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()

    def print_head(self, name: Namer) -> str:
        return f"tma.store {name(self.value)} -> {at_coords(name, self.tensor, self.coords)}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        value, tensor = self.value.type, self.tensor.type
        assert isinstance(tensor, TensorType)
        if not isinstance(value, Tile | SharedTile):
            raise ValueError(f"expected a tile, got {value}")
        if value.dtype != tensor.dtype or len(value.shape) > tensor.rank:
            raise ValueError(f"cannot store {value} to {tensor}")


@define("mma", levels=TILE, needs="wgmma")
class Mma(Op):
    """``acc + a @ b`` for shared tiles a (M, K) and b (K, N); the value, not the act."""

    a: Value = operand()
    b: Value = operand()
    acc: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (self.acc.type,)

    def verify(self) -> None:
        check_mma(self.a.type, self.b.type, self.acc.type)


def check_mma(a: Type, b: Type, acc: Type) -> None:
    """Raise ``ValueError`` unless ``acc + a @ b`` has fitting shapes and dtypes."""
    if not (isinstance(a, SharedTile) and isinstance(b, SharedTile) and isinstance(acc, Tile)):
        raise ValueError(f"expected two shared tiles and a register tile, got {a}, {b} and {acc}")
    if len(a.shape) != 2 or len(b.shape) != 2 or len(acc.shape) != 2:
        raise ValueError(f"expected tiles of rank 2, got {a}, {b} and {acc}")
    (m, k), (k2, n) = a.shape, b.shape
    if k != k2 or acc.shape != (m, n):
        raise ValueError(f"shapes do not fit: {a} @ {b} + {acc}")
    if a.dtype != b.dtype or acc.dtype != dtypes.float32:
        raise ValueError(f"dtypes do not fit: {a} @ {b} + {acc}")
