"""Payloads: which shared-memory tiles belong to a stage of a pipeline."""

from __future__ import annotations

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.language.outside import outside_kernel
from tiledsl.language.tile import SharedTile


class TilePayload:
    """Base of all payloads: named arrays of shared-memory tiles. A payload owns no barrier."""


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

    def get_tile(self, stage: int, k: int = 0) -> tuple[SharedTile, SharedTile]:
        """The A tile and the B tile number ``k`` of a stage.

        Args:
            stage: the slot: what ``stage.stage()`` gives.
            k: 0 ... k_group_size - 1, known at compile time or at run time.
        """
        raise outside_kernel("StandardTilePayload.get_tile")

    def get_a_tile(self, stage: int, k: int = 0) -> SharedTile:
        """The A tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("StandardTilePayload.get_a_tile")

    def get_b_tile(self, stage: int, k: int = 0) -> SharedTile:
        """The B tile number ``k`` of a stage; see ``get_tile``."""
        raise outside_kernel("StandardTilePayload.get_b_tile")
