"""Where the elements of a register tile live: which part, warp, lane and register."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

WARPGROUP = 128  # threads of a warpgroup: four warps
MMA_ROWS = 64  # rows of one wgmma instruction


@dataclass(frozen=True, slots=True)
class WgmmaFragment:
    """The accumulator layout of wgmma, over the warpgroups ("parts") of a role.

    The tile's rows are dealt to the parts in equal runs; a part's rows are cut into blocks of 64.
    Within a block, warp ``w`` owns rows 16 w ... 16 w + 15, and value ``i`` of lane ``l`` is at

        row    = 16 w + l // 4 + 8 * ((i // 2) % 2)
        column = 8 * (i // 4) + 2 * (l % 4) + i % 2

    Example: a 128 x 256 tile over 2 parts is 64 x 256 in each: one block, 128 values a thread.
    Lane 5 of warp 1 holds in values 0 and 1 the elements (17, 2) and (17, 3), and in values 2
    and 3 those of row 25.

    Attributes:
        parts: warpgroups that share the tile.
        rows: rows of one part, a multiple of 64.
        columns: a multiple of 8.
    """

    parts: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if self.parts < 1 or self.rows % MMA_ROWS or self.rows < MMA_ROWS:
            raise ValueError(f"each part needs a multiple of 64 rows, got {self.rows}")
        if self.columns % 8 or self.columns < 8:
            raise ValueError(f"columns must be a multiple of 8, got {self.columns}")

    @property
    def blocks(self) -> int:
        """Blocks of 64 rows in a part."""
        return self.rows // MMA_ROWS

    @property
    def values(self) -> int:
        """Values that each thread holds."""
        return self.rows * self.columns // WARPGROUP

    def coordinate(self, thread: int, value: int) -> tuple[int, int]:
        """(row, column) inside the part of value ``value`` of thread ``thread`` (0 ... 127)."""
        block, index = divmod(value, MMA_ROWS * self.columns // WARPGROUP)
        warp, lane = divmod(thread, 32)
        row = MMA_ROWS * block + 16 * warp + lane // 4 + 8 * ((index // 2) % 2)
        return row, 8 * (index // 4) + 2 * (lane % 4) + index % 2

    def __str__(self) -> str:
        return f"wgmma {self.parts}x[{self.rows}x{self.columns}]"


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """A tile of rank 1: the rows or columns of a ``WgmmaFragment``, each kept where it is needed.

    ``axis`` is the axis of the parent along which the tile does *not* extend: 1 for a value per
    row (``x[:, None]``), 0 for a value per column (``x[None, :]``). Every thread holds the values
    of its own rows (2 a block of 64) or columns (2 of each 8), and several threads hold the same.
    Each part holds its own rows; all parts hold all columns. In the order of the parent's values:
    row slice value ``i`` of a thread is row ``64 (i // 2) + 16 w + l // 4 + 8 (i % 2)``; column
    slice value ``i`` is column ``8 (i // 2) + 2 (l % 4) + i % 2``.
    """

    parent: WgmmaFragment
    axis: int

    @property
    def values(self) -> int:
        """Values that each thread holds."""
        if self.axis == 1:
            return 2 * self.parent.blocks
        return self.parent.columns // 4

    def __str__(self) -> str:
        return f"{'rows' if self.axis == 1 else 'columns'} of {self.parent}"


def swizzled_offset(row: int, byte: int, swizzle: int) -> int:
    """Byte offset of byte ``byte`` of row ``row`` in a panel whose rows are ``swizzle`` bytes.

    The 16-byte chunk index is XORed with bits of the address above it, as the tensor memory
    accelerator and wgmma do (``swizzle`` 128: three bits, 64: two, 32: one).
    """
    offset = row * swizzle + byte
    mask = {128: 7, 64: 3, 32: 1}[swizzle]
    return offset ^ (((offset >> 7) & mask) << 4)


def pick_swizzle(row_bytes: int) -> int:
    """The widest swizzle span (128, 64 or 32 bytes) that divides a row; 0 when none does."""
    return next((span for span in (128, 64, 32) if row_bytes % span == 0), 0)


def tile_swizzle(shape: tuple[int, ...], itemsize: int) -> int:
    """The swizzle of a stored shared tile: of its rows, if they come in groups of eight.

    A panel of fewer rows than one swizzle atom would leave the next panel unaligned.
    """
    return pick_swizzle(shape[-1] * itemsize) if prod(shape[:-1]) % 8 == 0 else 0


def tma_box(shape: tuple[int, ...], itemsize: int, swizzle: int) -> tuple[int, ...]:
    """The extents of one bulk tensor copy of a stored shared tile.

    The innermost extent is one panel (``swizzle`` bytes, or the whole row without swizzle); the
    outermost is cut to the largest divisor that the hardware takes (256).
    """
    inner = swizzle // itemsize if swizzle else shape[-1]
    if len(shape) == 1:
        return (inner,)
    rows = next(extent for extent in range(min(shape[0], 256), 0, -1) if shape[0] % extent == 0)
    return (rows, *shape[1:-1], inner)


def tile_alignment(swizzle: int) -> int:
    """Bytes to which a shared tile must be aligned: eight rows of a panel, at least 128."""
    return max(128, 8 * swizzle)
