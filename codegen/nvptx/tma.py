"""Bulk tensor copies between global and shared memory, and the groups of those that store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.boxes import (
    Copy,
    TensorOp,
    copies_of,
    share_bytes,
    share_extent,
    shares,
    tensormap_of,
)
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import copy, protocol, tile
from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.codegen.ir.types import BufferType, SharedTile, TensorType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I16, I32
from tiledsl.codegen.nvptx.multicast import Multicast, multicast
from tiledsl.codegen.nvptx.policies import cache_policy
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.errors import InternalError, InvalidValue

MAX_RANK = 5  # dimensions of a tensor map
SHARED_ALIGNMENT = 128  # bytes, of the shared-memory address of a copy
MAX_PIXELS = 1024  # of an im2col copy
ATOM_ROWS = 8  # the rows after which a swizzle repeats


def _tensor_map(low: Lowering, op: TensorOp) -> Any:
    """The parameter that holds the tensor map of an operation."""
    kind = op.tensor.type
    assert isinstance(kind, TensorType)
    if kind.rank > MAX_RANK:
        raise InvalidValue(
            f"a bulk tensor copy takes tensors of rank 1 to {MAX_RANK}: got rank {kind.rank}",
            op.loc,
            hint="pass a view of the tensor with fewer dimensions",
        )
    number = low.get(op.tensor)
    spec = tensormap_of(op, number, low.kernel.cluster)
    found = low.slots.get(ParamSlot("tensormap", number, dtype=spec.dtype, spec=spec))
    if found is None:
        raise InternalError(
            f"the plan has no tensor map with box {spec.box} for {op.opcode}", op.loc
        )
    return found


def _copies(low: Lowering, op: TensorOp, shared: SharedTile, shared_bytes: int = 0) -> list[Copy]:
    """The copies of a tile; ``shared_bytes`` is the distance of the shares of several blocks.

    Raises:
        InvalidValue: one of them would start where the hardware cannot copy.
    """
    found = list(copies_of(op, low.kernel.cluster))
    # The tile itself is aligned: see TileArray.pitch.
    for start in (shared_bytes, *(each.offset for each in found)):
        if start % SHARED_ALIGNMENT:
            raise InvalidValue(
                f"bulk tensor copies of a {shared.dtype} tile of shape {shared.stored_shape} would"
                f" start {start} bytes into shared memory: expected a multiple of"
                f" {SHARED_ALIGNMENT}",
                op.loc,
                hint="use a tile with longer rows, or with another number of rows"
                f" ({shared.nbytes} bytes in {len(found)} copies)",
            )
    return found


def _coordinates(
    low: Lowering,
    coords: Sequence[Value],
    start: Sequence[int],
    steps: Sequence[int] = (),
    outer: Any = None,
) -> list[tuple[str, Any]]:
    """Coordinates of one copy as operands, innermost first as PTX wants them.

    ``start`` is in elements of the tile, which are ``steps`` apart in the tensor; ``outer`` (i32)
    is added to the coordinate of the tile's outermost dimension.
    """
    missing = len(coords) - len(start)
    builder = low.builder
    moved = []
    for axis, coord in enumerate(coords):
        value = low.get(coord)
        if axis == missing and outer is not None:
            value = builder.add(value, outer)
        more = start[axis - missing] * (steps[axis] if steps else 1) if axis >= missing else 0
        moved.append(builder.add(value, I32(more)) if more else value)
    return [("r", value) for value in moved[::-1]]


def _places(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + n}" for n in range(count)) + "}"


# ------------------------------------------------------------------------------------- loads


@lower(tile.TmaLoad)
def _load(low: Lowering, op: tile.TmaLoad) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    tensor_map = _tensor_map(low, op)
    group = multicast(low, op, op.multicast)
    address, outer, apart, when = low.get(op.tile), None, 0, None
    if group is not None and op.partitioned:
        _check_share(low, op, shared)
        apart = share_bytes(op, low.kernel.cluster)
        address = low.builder.add(address, low.builder.mul(group.index, I32(apart)))
        missing = len(op.coords) - len(shared.stored_shape)
        step = op.element_strides[missing] if op.element_strides else 1
        extent = share_extent(op, low.kernel.cluster)
        outer = low.builder.mul(group.index, I32(extent * step))
    elif group is not None:
        when = group.first
    for each in _copies(low, op, shared, apart):
        to = low.builder.add(address, I32(each.offset)) if each.offset else address
        coords = _coordinates(low, op.coords, each.start, op.element_strides, outer)
        _issue_load(low, op, "tile", (to, tensor_map), coords, [], group, when)


def _check_share(low: Lowering, op: tile.TmaLoad, shared: SharedTile) -> None:
    """Every block's share must be one that copies can write."""
    blocks = shares(op, low.kernel.cluster)
    first, *others = shared.stored_shape
    rows = first
    for extent in others[:-1]:
        rows *= extent
    unit = blocks * ATOM_ROWS if shared.swizzle and others else blocks
    if first % blocks or rows % unit:
        raise InvalidValue(
            f"a tile of shape {shared.shape} cannot be shared out to {blocks} blocks: expected a"
            f" first extent that is a multiple of {blocks}, and a multiple of {unit} rows",
            op.loc,
            hint="write partitioned=False: one block then loads the whole tile for all",
        )


def _issue_load(
    low: Lowering,
    op: tile.TmaLoad | copy.TmaLoadIm2col,
    mode: str,
    places: tuple[Any, Any],
    coords: list[tuple[str, Any]],
    offsets: list[tuple[str, Any]],
    group: Multicast | None,
    when: Any,
) -> None:
    """One copy to shared memory; ``places`` are the shared address and the tensor map."""
    suffix, policy = cache_policy(low, op.cache)
    everywhere = ".multicast::cluster" if group is not None else ""
    operands = [("r", places[0]), ("l", places[1]), ("r", low.get(op.barrier)), *coords]
    text = (
        f"cp.async.bulk.tensor.{len(coords)}d.shared::cluster.global.{mode}"
        f".mbarrier::complete_tx::bytes{everywhere}{suffix}"
        f" [$0], [$1, {_places(3, len(coords))}], [$2]"
    )
    if offsets:
        text += f", {_places(len(operands), len(offsets))}"
        operands += offsets
    for more in [("h", group.mask)] if group is not None else [], policy:
        for operand in more:
            text += f", ${len(operands)}"
            operands.append(operand)
    low.elected(text + ";", operands, "role", when)


@lower(copy.TmaLoadIm2col)
def _load_im2col(low: Lowering, op: copy.TmaLoadIm2col) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    if shared.shape[0] > MAX_PIXELS:
        raise InvalidValue(
            f"an im2col load takes at most {MAX_PIXELS} pixels: got a tile of shape {shared.shape}",
            op.loc,
            hint="use a tile with fewer rows",
        )
    tensor_map = _tensor_map(low, op)
    # The pixels of a share cannot be counted off ahead, so one block loads for all of them.
    group = multicast(low, op, op.multicast)
    when = group.first if group is not None else None
    offsets = [("h", low.builder.trunc(low.get(value), I16)) for value in reversed(op.offsets)]
    for each in _copies(low, op, shared):
        to = low.get(op.tile)
        if each.offset:
            to = low.builder.add(to, I32(each.offset))
        coords = _coordinates(low, op.coords, each.start[-1:])
        _issue_load(low, op, "im2col", (to, tensor_map), coords, offsets, group, when)


@lower(copy.TmaPrefetch)
def _prefetch(low: Lowering, op: copy.TmaPrefetch) -> None:
    tensor_map = _tensor_map(low, op)
    suffix, policy = cache_policy(low, op.cache)
    for each in copies_of(op):
        coords = _coordinates(low, op.coords, each.start)
        text = (
            f"cp.async.bulk.prefetch.tensor.{len(coords)}d.L2.global.tile{suffix}"
            f" [$0, {_places(1, len(coords))}]"
        )
        text += f", ${1 + len(coords)};" if policy else ";"
        low.elected(text, [("l", tensor_map), *coords, *policy], "role")


# ------------------------------------------------------------------------------------- stores


def _store(
    low: Lowering,
    op: protocol.TmaStoreBuffer | protocol.TmaStoreShared,
    address: Any,
    tensor_map: Any,
    coords: list[tuple[str, Any]],
    elect: str,
) -> None:
    suffix, policy = cache_policy(low, op.cache)
    name, how = ("cp", "") if op.reduce is None else ("cp.reduce", f".{op.reduce}")
    text = (
        f"{name}.async.bulk.tensor.{len(coords)}d.global.shared::cta{how}.tile.bulk_group{suffix}"
        f" [$1, {_places(2, len(coords))}], [$0]"
    )
    text += f", ${2 + len(coords)};" if policy else ";"
    low.elected(text, [("r", address), ("l", tensor_map), *coords, *policy], elect)


@lower(protocol.TmaStoreBuffer)
def _store_buffer(low: Lowering, op: protocol.TmaStoreBuffer) -> None:
    buffer = op.buffer.type
    assert isinstance(buffer, BufferType)
    tensor_map = _tensor_map(low, op)
    address = low.get(op.buffer)
    if op.box:
        address = low.builder.add(address, I32(op.box * (buffer.nbytes // buffer.count)))
    _store(low, op, address, tensor_map, _coordinates(low, op.coords, ()), "part")


@lower(protocol.TmaStoreShared)
def _store_shared(low: Lowering, op: protocol.TmaStoreShared) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    tensor_map = _tensor_map(low, op)
    for each in _copies(low, op, shared):
        address = low.get(op.tile)
        if each.offset:
            address = low.builder.add(address, I32(each.offset))
        _store(low, op, address, tensor_map, _coordinates(low, op.coords, each.start), "role")


@lower(protocol.BulkCommit)
def _commit(low: Lowering, op: protocol.BulkCommit) -> None:
    low.elected("cp.async.bulk.commit_group;", [], op.elect)


@lower(protocol.BulkWait)
def _wait(low: Lowering, op: protocol.BulkWait) -> None:
    read = ".read" if op.read else ""
    low.elected(f"cp.async.bulk.wait_group{read} {op.pending};", [], op.elect)
