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
    them, derived by a pass. ``counts`` are the arrivals a phase that the user states for full and
    empty, or None: derived. ``axes`` are the cluster axes along which blocks write into each
    other's stages (multicast), derived by a pass: a consumer then frees the slot in every block
    that shares such an axis with its own; with ``spans``, of a copy along several axes at once,
    in every block that differs from its own along these axes only.
    """

    name: str = attribute()
    ring: RingType = attribute()
    lookahead: int = attribute(default=1)
    counts: tuple[int | None, int | None] = attribute(default=(None, None))
    axes: tuple[int, ...] = attribute(default=())
    spans: bool = attribute(default=False)

    def result_types(self) -> Sequence[Type]:
        return (self.ring,)

    def print_head(self, name: Namer) -> str:
        axes = f", cluster axes {self.axes}" if self.axes else ""
        axes += " together" if self.spans else ""
        sides = zip(("full", "empty"), self.counts, strict=True)
        counts = "".join(f", {count} arrivals on {side}" for side, count in sides if count)
        return f"pipeline.create {self.ring}{counts}{axes}"


def check_ready(ready: Sequence[Value]) -> None:
    if len(ready) > 1 or any(value.type != Scalar(dtypes.bool_) for value in ready):
        raise ValueError("expected at most one bool_ that says whether a slot is ready")


class _OnRing(Op):
    ring: Value

    def verify(self) -> None:
        if not isinstance(self.ring.type, RingType):
            raise ValueError(f"expected a pipeline, got {self.ring.type}")


@define("pipeline.acquire_producer", levels=TILE, effect=Effect.SYNC)
class AcquireProducer(_OnRing):
    """Wait until the next slot is empty; the handle of that slot.

    With ``ready`` (none or one bool_, from ``try_acquire``) it waits only where that is false.
    ``nbytes`` are the bytes that the loads on this stage bring, derived by a pass.
    """

    ring: Value = operand()
    ready: tuple[Value, ...] = operands(default=(), kw_only=True)
    nbytes: int | None = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.ring.type, RingType)
        return (StageType("producer", self.ring.type),)

    def verify(self) -> None:
        super().verify()
        check_ready(self.ready)


@define("pipeline.acquire_consumer", levels=TILE, effect=Effect.SYNC)
class AcquireConsumer(_OnRing):
    """Wait until the next slot is full; the handle of that slot. ``ready`` as for a producer."""

    ring: Value = operand()
    ready: tuple[Value, ...] = operands(default=(), kw_only=True)

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.ring.type, RingType)
        return (StageType("consumer", self.ring.type),)

    def verify(self) -> None:
        super().verify()
        check_ready(self.ready)


class _OnStage(Op):
    stage: Value

    def verify(self) -> None:
        if not isinstance(self.stage.type, StageType):
            raise ValueError(f"expected a stage, got {self.stage.type}")


@define("pipeline.release", levels=TILE, effect=Effect.SYNC)
class Release(_OnStage):
    """Give the stage up: a producer hands it to the consumers, a consumer frees it.

    Without ``signal`` nobody is told: the arrival came, or comes, from elsewhere.
    """

    stage: Value = operand()
    signal: bool = attribute(default=True)

    def print_head(self, name: Namer) -> str:
        return f"pipeline.release {name(self.stage)}" + ("" if self.signal else ", no signal")


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
    """Tile number ``index`` (slot * array.tiles + k) of array ``array`` of a pipeline's payload."""

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

CACHE_HINTS = ("evict_first", "evict_normal", "evict_last")  # L2 eviction priorities
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")  # of a bulk tensor store


@define("tma.load", effect=Effect.WRITE, needs="tma")
class TmaLoad(Op):
    """Start a bulk tensor copy from global to shared memory; it completes on ``barrier``.

    ``coords`` is the first element, one coordinate a dimension; what lies outside of the tensor
    reads as zero and still counts as bytes. Issued by one elected thread of the role. A tile of
    lower rank than the tensor takes extent 1 in the leading dimensions.

    ``multicast`` are cluster axes along which all blocks take this same tile: each loads its
    share of the tile's outermost extent and multicasts it (``partitioned``), or the block that
    comes first along them loads the whole. Every block's barrier counts the bytes of the whole
    tile. ``cache`` is an L2 eviction hint (``CACHE_HINTS``); ``element_strides`` are the steps
    between the elements that are taken, one a dimension of the tensor, none for all 1.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    tile: Value = operand()
    barrier: Value = operand()
    multicast: tuple[int, ...] = attribute(default=())
    partitioned: bool = attribute(default=True)
    cache: str | None = attribute(default=None)
    element_strides: tuple[int, ...] = attribute(default=())

    def print_head(self, name: Namer) -> str:
        source = at_coords(name, self.tensor, self.coords)
        mode = "" if self.partitioned else ", whole"
        shared = f", multicast {self.multicast}{mode}" if self.multicast else ""
        steps = f", element strides {self.element_strides}" if self.element_strides else ""
        cache = f", {self.cache}" if self.cache else ""
        return f"tma.load {source} -> {name(self.tile)}, {name(self.barrier)}{shared}{steps}{cache}"

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
    """Write a register or shared tile to global memory; elements outside are not written.

    With ``reduce`` (``REDUCTIONS``) the elements are combined with what is there, atomically.
    """

    value: Value = operand()
    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    reduce: str | None = attribute(default=None)
    cache: str | None = attribute(default=None)

    def print_head(self, name: Namer) -> str:
        options = "".join(f", {x}" for x in (self.reduce, self.cache) if x)
        where = at_coords(name, self.tensor, self.coords)
        return f"tma.store {name(self.value)} -> {where}{options}"

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
