"""Matrix multiplication of shared tiles by warpgroups, into accumulators that stay in registers.

One operation becomes one inline asm: fence, all instructions, commit. The accumulators are outputs
tied to inputs, so ptxas keeps them where they are; between the asm and the one that waits nothing
may touch them (hazards H4 ... H6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import MMA_ROWS, WgmmaFragment
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import SharedTile, Tile
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, fragment
from tiledsl.errors import InternalError, InvalidValue, TypeMismatch

MAX_COLUMNS = 256  # of one instruction
K_BYTES = 32  # extent in k of one instruction
OPERAND_DTYPES: dict[DType, str] = {
    dtypes.bfloat16: "bf16",
    dtypes.float16: "f16",
    dtypes.float8_e4m3fn: "e4m3",
    dtypes.float8_e5m2: "e5m2",
}
# Bits 62-63 of a descriptor, here as bits 30-31 of its upper half.
_SWIZZLE_MODE = {128: 1, 64: 2, 32: 3, 16: 0}


@dataclass(frozen=True, slots=True)
class Operand:
    """How a shared tile is described to the instruction.

    ``mn`` is the dimension that is not k: rows of a, columns of b. The tile is "k-major" when k
    runs along its rows in memory, so that a panel holds all of ``mn``; else it is "mn-major" and a
    panel holds all of k. In units of 16 bytes a descriptor has the start address, the *leading*
    byte offset (mn-major: from one panel to the next; k-major: unused, 1) and the *stride* byte
    offset (from 8 rows of a panel to the next 8).
    """

    tile: SharedTile
    mn_major: bool
    span: int  # bytes of a panel's row
    rows: int  # of a panel

    @property
    def panel_bytes(self) -> int:
        return self.rows * self.span

    @property
    def low_bits(self) -> int:
        """Bits 16-29: the leading byte offset. The start address is added at run time."""
        leading = self.panel_bytes if self.mn_major and self.span > 16 else 128
        return (leading >> 4 if self.mn_major else 1) << 16

    @property
    def high_word(self) -> int:
        """Bits 32-63: the stride byte offset and the swizzle mode."""
        return (8 * self.span) >> 4 | _SWIZZLE_MODE[self.span] << 30

    def offset(self, mn: int, k: int) -> int:
        """Bytes from the start of the tile to element (mn, k), where an instruction starts."""
        along, across = (mn, k) if self.mn_major else (k, mn)
        panel, inside = divmod(along * self.tile.dtype.itemsize, self.span)
        return panel * self.panel_bytes + across * self.span + inside


def describe(op: Op, tile: SharedTile, k_axis: int) -> Operand:
    """How ``tile`` is described, where ``k_axis`` is its dimension k.

    Raises:
        TypeMismatch, InvalidValue: wgmma cannot read a tile like this.
    """
    dtype, name = tile.dtype, "ab"[1 - k_axis]
    if dtype not in OPERAND_DTYPES:
        known = ", ".join(d.name for d in OPERAND_DTYPES)
        raise TypeMismatch(
            f"mma cannot multiply tiles of {dtype}: expected one of {known}",
            op.loc,
            hint="convert the tensor before the kernel",
        )
    step = K_BYTES // dtype.itemsize
    if tile.shape[k_axis] % step:
        raise InvalidValue(
            f"mma of {dtype} tiles takes {step} elements of k at a time: expected a multiple of"
            f" {step}, got k = {tile.shape[k_axis]} in {name} of shape {tile.shape}",
            op.loc,
            hint=f"use a tile whose k extent is a multiple of {step}",
        )
    mn_major = (k_axis == 0) != tile.transposed
    if mn_major and dtype.bits == 8:
        raise InvalidValue(
            f"mma of {dtype} tiles needs k contiguous in memory: {name} of shape {tile.shape} is"
            f" stored as {tile.stored_shape}",
            op.loc,
            hint="store the matrix with k as its last dimension and use tile.T",
        )
    rows, columns = tile.stored_shape
    span = tile.swizzle or columns * dtype.itemsize
    if span not in _SWIZZLE_MODE or (not tile.swizzle and not (mn_major and span == 16)):
        raise InvalidValue(
            f"mma cannot read {name} of shape {tile.shape}: its rows in memory have"
            f" {columns * dtype.itemsize} bytes, expected a multiple of 32",
            op.loc,
            hint=f"make the last stored dimension a multiple of {32 // dtype.itemsize}",
        )
    return Operand(tile, mn_major, span, rows)


def column_chunks(columns: int, unit: int) -> list[tuple[int, int]]:
    """(first column, columns) of each instruction: as equal as multiples of ``unit`` can be."""
    count = -(-columns // MAX_COLUMNS)
    width = -(-columns // (count * unit)) * unit
    return [(first, min(width, columns - first)) for first in range(0, columns, width)]


@lower(protocol.Wgmma)
def _wgmma(low: Lowering, op: protocol.Wgmma) -> None:
    a_type, b_type, acc_type = op.a.type, op.b.type, op.acc.type
    assert isinstance(a_type, SharedTile) and isinstance(b_type, SharedTile)
    assert isinstance(acc_type, Tile)
    if low.runner.single:
        raise InternalError("wgmma outside of a warpgroup role", op.loc)
    a, b = describe(op, a_type, 1), describe(op, b_type, 0)
    layout = fragment(acc_type)
    acc = low.get(op.acc)
    assert isinstance(acc, RegisterTile)
    fresh = is_zero(acc)
    registers = acc.elements if acc.nonzero is not None else acc.unpack(low.builder)
    assert registers is not None
    a_address = low.get(op.a)
    if layout.parts > 1:
        a_address = low.builder.add(a_address, _part_offset(low, op, a, layout))
    operands = [] if fresh else [(str(n), value) for n, value in enumerate(registers)]
    starts = (f"${layout.values + len(operands)}", f"${layout.values + len(operands) + 1}")
    operands += [("r", _start(low, a_address, a)), ("r", _start(low, low.get(op.b), b))]
    scale = "0" if fresh else "1"
    if acc.nonzero is not None:
        scale = f"${layout.values + len(operands)}"
        operands.append(("b", acc.nonzero))
    text = _text(a, b, layout, starts, scale)
    low.define(op.result, _accumulate(low, text, layout.values, operands))


def is_zero(acc: RegisterTile) -> bool:
    """Whether an accumulator is the constant 0.0, so that it need not be read at all."""
    if not acc.elements or acc.nonzero is not None:
        return False
    first = acc.elements[0]
    return getattr(first, "constant", None) == 0.0 and all(e is first for e in acc.elements)


def _part_offset(low: Lowering, op: Op, a: Operand, layout: WgmmaFragment) -> Any:
    """Bytes from tile a to the rows of this part."""
    step = a.offset(layout.rows, 0)
    if any(a.offset(p * layout.rows, 0) != p * step for p in range(layout.parts)):
        raise InternalError("the parts of tile a do not lie at equal distances", op.loc)
    return low.builder.mul(low.runner.part, I32(step))


def _start(low: Lowering, address: Any, operand: Operand) -> Any:
    """The lower word of a descriptor; the upper word is a constant in the asm."""
    return low.builder.or_(low.builder.lshr(address, I32(4)), I32(operand.low_bits))


def _accumulate(
    low: Lowering, text: str, count: int, operands: list[tuple[str, Any]]
) -> RegisterTile:
    kind = low.struct_of_floats(count)
    outputs = ",".join(["=f"] * count)
    result = low.asm(text, operands, outputs=outputs, result=kind, convergent=True)
    extract = low.builder.extract_value
    return RegisterTile(dtypes.float32, [extract(result, n) for n in range(count)])


def _steps(a: Operand, b: Operand, layout: WgmmaFragment) -> Iterator[tuple[int, int, int, int]]:
    """(k, row, column, columns) of each instruction. k is outermost: accumulators alternate."""
    itemsize = a.tile.dtype.itemsize
    unit = b.span // itemsize if b.mn_major else 8
    chunks = column_chunks(layout.columns, max(8, unit))
    for k in range(0, a.tile.shape[1], K_BYTES // itemsize):
        for row in range(0, layout.rows, MMA_ROWS):
            for column, columns in chunks:
                yield k, row, column, columns


def _text(
    a: Operand, b: Operand, layout: WgmmaFragment, starts: tuple[str, str], scale: str
) -> str:
    """The PTX. The accumulators are ``$0`` ...

    ``starts`` are the operands with the lower words of the descriptors; ``scale`` is a predicate
    or number: whether the first instruction adds to the accumulators or overwrites them.
    """
    described: dict[tuple[str, int], str] = {}
    setup: list[str] = []

    def descriptor(name: str, operand: Operand, mn: int, k: int) -> str:
        offset = operand.offset(mn, k) >> 4
        if (name, offset) not in described:
            register = f"{name}{len(described)}"
            described[name, offset] = register
            low_word = starts["ab".index(name)]
            if offset:
                setup.append(f"add.u32 t, {low_word}, {offset};")
                low_word = "t"
            setup.append(f"mov.b64 {register}, {{{low_word}, {operand.high_word}}};")
        return described[name, offset]

    dtype = OPERAND_DTYPES[a.tile.dtype]
    itemsize = a.tile.dtype.itemsize
    majors = f", {int(a.mn_major)}, {int(b.mn_major)}" if itemsize == 2 else ""
    lines = []
    for k, row, column, columns in _steps(a, b, layout):
        first = (row // MMA_ROWS * layout.columns + column) // 2
        values = ", ".join(f"${first + n}" for n in range(columns // 2))
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n{columns}k{K_BYTES // itemsize}.f32.{dtype}.{dtype}"
            f" {{{values}}}, {descriptor('a', a, row, k)}, {descriptor('b', b, column, k)},"
            f" {scale if k == 0 else 1}, 1, 1{majors};"
        )
    registers = ", ".join(described.values())
    body = [*setup, "wgmma.fence.sync.aligned;", *lines, "wgmma.commit_group.sync.aligned;"]
    return f"{{ .reg .b32 t; .reg .b64 {registers}; {' '.join(body)} }}"


@lower(protocol.WgmmaWait)
def _wait(low: Lowering, op: protocol.WgmmaWait) -> None:
    ready = retire(low, [low.get(value) for value in op.values], op.pending)
    for result, tile in zip(op.results, ready, strict=True):
        low.define(result, tile)


def retire(low: Lowering, tiles: list[RegisterTile], pending: int) -> list[RegisterTile]:
    """Wait until at most ``pending`` groups are in flight; the tiles that are ready then.

    They pass through the wait, so that LLVM cannot read them above it.
    """
    text = f"wgmma.wait_group.sync.aligned {pending};"
    if not tiles:
        low.asm(text, convergent=True)
        return []
    unpacked = [tile.unpack(low.builder) for tile in tiles]
    registers = [register for elements in unpacked for register in elements]
    operands = [(str(n), register) for n, register in enumerate(registers)]
    ready = iter(_accumulate(low, text, len(registers), operands).unpack(low.builder))
    return [RegisterTile(dtypes.float32, [next(ready) for _ in tile]) for tile in unpacked]
