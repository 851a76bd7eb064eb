"""``td.mma``: what wgmma can multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import SharedTile, Tile
from tiledsl.frontend.registry import implements
from tiledsl.language import mma as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

HALF = (dtypes.bfloat16, dtypes.float16)
FP8 = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)
M_UNIT = 64
N_UNIT = 8
N_MOST = 256
K_BYTES = 32  # of one instruction


@implements(language.mma)
def mma(cx: Context, a: object, b: object, acc: object) -> Value:
    left = _shared(cx, a, "a")
    right = _shared(cx, b, "b")
    if not isinstance(acc, Value) or not isinstance(acc.type, Tile):
        raise cx.type_error(
            f"td.mma: acc: expected a float32 register tile, got {cx.describe(acc)}",
            hint="begin with acc = td.zeros((M, N), td.float32)",
        )
    assert isinstance(left.type, SharedTile) and isinstance(right.type, SharedTile)
    _check_shapes(cx, left.type, right.type, acc.type)
    _check_dtypes(cx, left.type, right.type, acc.type)
    _check_instruction(cx, left.type, right.type)
    return cx.emit(tile.Mma(left, right, acc))


def _shared(cx: Context, value: object, name: str) -> Value:
    if isinstance(value, Value) and isinstance(value.type, SharedTile):
        return value
    register = isinstance(value, Value) and isinstance(value.type, Tile)
    raise cx.type_error(
        f"td.mma: {name}: expected a tile in shared memory, got {cx.describe(value)}",
        hint="operands in registers are not supported yet: load the tile through a pipeline"
        if register
        else None,
    )


def _check_shapes(cx: Context, a: SharedTile, b: SharedTile, acc: Tile) -> None:
    for name, shape in (("a", a.shape), ("b", b.shape), ("acc", acc.shape)):
        if len(shape) != 2:
            raise cx.type_error(f"td.mma: {name}: expected a tile of rank 2, got shape {shape}")
    (m, k), (rows, n) = a.shape, b.shape
    if k != rows:
        fits = b.shape[1] == k and not b.transposed
        raise cx.type_error(
            f"td.mma: K does not match: a has shape {a.shape}, (M, K), and b has shape {b.shape},"
            f" (K, N): expected b with {k} rows, got {rows}",
            hint="write b.T: a tile that was loaded as (N, K) is given transposed"
            if fits
            else None,
        )
    if acc.shape != (m, n):
        raise cx.type_error(
            f"td.mma: acc: expected shape {(m, n)} for a of shape {a.shape} and b of shape"
            f" {b.shape}, got {acc.shape}",
            hint=f"begin with acc = td.zeros({(m, n)}, td.float32)",
        )


def _check_dtypes(cx: Context, a: SharedTile, b: SharedTile, acc: Tile) -> None:
    if a.dtype != b.dtype:
        raise cx.type_error(
            f"td.mma: expected a and b of one dtype, got {a.dtype} and {b.dtype}",
            hint="give both tensors one dtype before the launch",
        )
    if a.dtype not in HALF + FP8:
        legal = ", ".join(dtype.name for dtype in HALF + FP8)
        raise cx.type_error(f"td.mma: expected tiles of one of {legal}, got {a.dtype}")
    if acc.dtype != dtypes.float32:
        raise cx.type_error(
            f"td.mma: acc: expected float32, got {acc.dtype}",
            hint="accumulate in float32 and convert the result: acc.to(dtype)",
        )
    if a.dtype in FP8 and (a.transposed or not b.transposed):
        name = "a" if a.transposed else "b"
        wanted = "(M, K), without .T" if name == "a" else "(N, K), given as b.T"
        raise cx.type_error(
            f"td.mma: {name}: the tensor cores read {a.dtype} with K contiguous only: expected a"
            f" tile stored as {wanted}",
            hint="transpose the tensor before the launch, or use 16-bit elements",
        )


def _check_instruction(cx: Context, a: SharedTile, b: SharedTile) -> None:
    """M, N and K must be made of whole wgmma instructions, and rows of swizzled panels."""
    (m, k), n = a.shape, b.shape[1]
    k_unit = K_BYTES // a.dtype.itemsize
    problem = None
    if m % M_UNIT:
        problem = f"M = {m}"
    elif n % N_UNIT or n > N_MOST:
        problem = f"N = {n}"
    elif k % k_unit:
        problem = f"K = {k}"
    if problem is not None:
        raise cx.value_error(
            f"td.mma: wgmma has no shape for {problem} (a is {a.shape}, b is {b.shape},"
            f" {a.dtype}): expected M a multiple of {M_UNIT}, N a multiple of {N_UNIT} up to"
            f" {N_MOST}, K a multiple of {k_unit}"
        )
    for name, shared in (("a", a), ("b", b)):
        if not shared.swizzle:
            row = shared.stored_shape[1] * shared.dtype.itemsize
            if row % K_BYTES == 0:
                raise cx.value_error(
                    f"td.mma: {name}: the tile is stored with swizzle=0: expected a swizzle of 32,"
                    " 64 or 128 bytes, which the tensor cores can read",
                    hint="leave swizzle= out where the tile is made: the widest that fits is taken",
                )
            raise cx.value_error(
                f"td.mma: {name}: the stored tile has rows of {row} bytes: expected a multiple of"
                f" {K_BYTES} bytes, which the tensor cores can read",
                hint=f"use a multiple of {k_unit} for the last extent of {shared.stored_shape}",
            )
