"""Payloads: which shared-memory tiles belong to a stage of a pipeline."""

from __future__ import annotations

import dataclasses
from typing import TypeVar, dataclass_transform

from tiledsl.codegen.ir.dtypes import DType, float32
from tiledsl.errors import TypeMismatch
from tiledsl.language.outside import outside_kernel
from tiledsl.language.stage import Stage
from tiledsl.language.tile import SharedTile

_T = TypeVar("_T")
MARK = "__tiledsl_payload__"


class TilePayload:
    """Base of all payloads: named arrays of shared-memory tiles. A payload owns no barrier."""


class TileArray(TilePayload):
    """An array of tiles in shared memory: a field of a payload, or a payload by itself.

    Made in a kernel it is a description. In what ``stage.payload()`` gives it holds tiles, which
    are taken by the stage and the tile's number in it: ``array[stage]`` is the first tile of the
    stage, ``array[stage, k]`` tile ``k``; for ``stage``, either the handle itself or its number.

    Args:
        dtype: element type.
        shape: extents of one tile in elements, known at compile time; one to five of them.
        stages: tiles in the whole array, known at compile time. A pipeline of S stages takes a
            multiple of S, and gives each stage ``stages / S`` tiles.
        swizzle: 128, 64, 32 or 0 bytes. None: the widest that divides a row, and 0 where none
            does or where the rows do not come in groups of eight.

    Raises:
        TypeMismatch: a shape or number that is only known at run time; a value that is no dtype.
        InvalidValue: extents or stages that are not positive; a swizzle that does not divide a
            row, or for rows that do not come in groups of eight.

    Example::

        tiles = td.TileArray(x.dtype, (BM, BN), stages=2)
        pipeline = td.InputTilePipeline(tiles, num_group_stages=2)
        with td.role("load", warps=1), pipeline.producer().acquire() as stage:
            td.tma_load(x, (0, 0), stage.tile(), stage.barrier())
    """

    def __init__(
        self, dtype: DType, shape: tuple[int, ...], stages: int, *, swizzle: int | None = None
    ) -> None:
        raise outside_kernel("td.TileArray")

    def __getitem__(self, index: int | Stage | tuple[int | Stage, int]) -> SharedTile:
        """Tile ``array[stage]`` or ``array[stage, k]``.

        A number that is known at compile time is checked; one that is only known at run time must
        be in range.
        """
        raise outside_kernel("TileArray[...]")

    @property
    def dtype(self) -> DType:
        """Element type."""
        raise outside_kernel("TileArray.dtype")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of one tile in elements."""
        raise outside_kernel("TileArray.shape")

    @property
    def stages(self) -> int:
        """Tiles in the whole array."""
        raise outside_kernel("TileArray.stages")

    @property
    def swizzle(self) -> int:
        """The swizzle of the tiles in bytes: 128, 64, 32, or 0 for none."""
        raise outside_kernel("TileArray.swizzle")


@dataclass_transform(eq_default=False)
def payload(cls: type[_T]) -> type[_T]:
    """Make a class a payload: its fields are ``td.TileArray``, each with a shape of its own.

    The class becomes a dataclass, made in the kernel with keywords or positions. Beside the
    arrays it may have fields with other values that are known at compile time, methods (plain
    Python, inlined) and properties. ``stage.payload()`` gives an instance of it whose arrays hold
    tiles.

    Raises:
        TypeMismatch: not a class.

    Example::

        @td.payload
        class KeysValues:
            k: td.TileArray
            v: td.TileArray

            def pair(self, stage, j):
                return self.k[stage], self.v[stage, j]

        # in the kernel: two tiles of V behind each tile of K
        payload = KeysValues(
            k=td.TileArray(dtype, (BN, D), stages=4), v=td.TileArray(dtype, (BN // 2, D), stages=8))
        pipeline = td.InputTilePipeline(payload, num_group_stages=4)
        ...
        k_tile, v_tile = stage.payload().pair(stage, 1)
    """
    if not isinstance(cls, type):
        raise TypeMismatch(
            f"td.payload: expected a class, got {cls!r}",
            hint="write @td.payload in front of a class with fields: td.TileArray",
        )
    made = dataclasses.dataclass(eq=False)(cls)
    setattr(made, MARK, True)
    return made


class StandardTilePayload(TilePayload):
    """The operands of a matrix product: an array of A tiles and an array of B tiles.

    The tiles are row major; the swizzle is the widest of 128, 64 and 32 bytes that divides a row.
    A payload made in a kernel is a description; the one that ``stage.payload()`` gives holds
    tiles.

    Args:
        a_dtype, b_dtype: element types.
        a_shape, b_shape: extents of one tile in elements, known at compile time; usually
            ``(BM, BK)`` and ``(BN, BK)``.
        num_pipeline_stages: tiles in each array: stages of the pipeline times its
            ``k_group_size``.

    Raises:
        TypeMismatch: a shape or number that is only known at run time; a value that is no dtype.
        InvalidValue: extents that are not positive, more than five extents, a tile row that is
            not a multiple of 16 bytes.

    Example::

        payload = td.StandardTilePayload(
            a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=4)
        pipeline = td.InputTilePipeline(payload, num_group_stages=4)
    """

    def __init__(
        self,
        a_dtype: DType,
        b_dtype: DType,
        a_shape: tuple[int, ...],
        b_shape: tuple[int, ...],
        *,
        num_pipeline_stages: int,
    ) -> None:
        raise outside_kernel("td.StandardTilePayload")

    def get_tile(self, stage: int | Stage, k: int = 0) -> tuple[SharedTile, SharedTile]:
        """The A tile and the B tile number ``k`` of a stage.

        Args:
            stage: the slot, what ``stage.stage()`` gives; or the stage itself.
            k: 0 ... k_group_size - 1, known at compile time or at run time. Only the former is
                checked.
        """
        raise outside_kernel("StandardTilePayload.get_tile")

    def get_a_tile(self, stage: int | Stage, k: int = 0) -> SharedTile:
        """The A tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("StandardTilePayload.get_a_tile")

    def get_b_tile(self, stage: int | Stage, k: int = 0) -> SharedTile:
        """The B tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("StandardTilePayload.get_b_tile")


class BlockwiseFP8TilePayload(TilePayload):
    """The operands of a product of scaled 8-bit floats: A tiles, B tiles and the scales of A.

    A and B tiles are as in ``StandardTilePayload``. The scales are not swizzled, for they are read
    by elements and not by the tensor core. Scales of B stay in global memory.

    Args:
        a_dtype, b_dtype: element types, such as ``td.float8_e4m3fn``.
        a_shape, b_shape: extents of one tile in elements; usually ``(BM, BK)`` and ``(BN, BK)``.
        a_scales_shape: extents of the scales of one A tile; usually ``(BM,)`` or ``(1, BM)``.
        num_pipeline_stages: tiles in each array: stages of the pipeline times its
            ``k_group_size``.
        a_scales_dtype: element type of the scales.

    Raises:
        TypeMismatch, InvalidValue: as for ``StandardTilePayload``.

    Example::

        payload = td.BlockwiseFP8TilePayload(
            a.dtype, b.dtype, (BM, 128), (BN, 128), (BM,), num_pipeline_stages=4)
        pipeline = td.InputTilePipeline(payload, num_group_stages=4)
        ...
        a_tile, b_tile, scales = stage.payload().get_tile(stage.stage())
    """

    def __init__(
        self,
        a_dtype: DType,
        b_dtype: DType,
        a_shape: tuple[int, ...],
        b_shape: tuple[int, ...],
        a_scales_shape: tuple[int, ...],
        *,
        num_pipeline_stages: int,
        a_scales_dtype: DType = float32,
    ) -> None:
        raise outside_kernel("td.BlockwiseFP8TilePayload")

    def get_tile(self, stage: int | Stage, k: int = 0) -> tuple[SharedTile, SharedTile, SharedTile]:
        """The A tile, the B tile and the scales of A number ``k`` of a stage.

        Args: as for ``StandardTilePayload.get_tile``.
        """
        raise outside_kernel("BlockwiseFP8TilePayload.get_tile")

    def get_a_tile(self, stage: int | Stage, k: int = 0) -> SharedTile:
        """The A tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("BlockwiseFP8TilePayload.get_a_tile")

    def get_b_tile(self, stage: int | Stage, k: int = 0) -> SharedTile:
        """The B tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("BlockwiseFP8TilePayload.get_b_tile")

    def get_a_scales_tile(self, stage: int | Stage, k: int = 0) -> SharedTile:
        """The scales of A tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("BlockwiseFP8TilePayload.get_a_scales_tile")
