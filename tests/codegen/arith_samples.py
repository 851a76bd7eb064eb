"""Kernels that hold every arithmetic operation of one dtype, on scalars and on register tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.codegen.ir_samples import Sketch
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, tile


def _accepted(op: arith.Binary | arith.Unary | arith.Compare) -> bool:
    try:
        op.verify()
    except ValueError:
        return False
    return True


def accepted(dtype: DType) -> tuple[list[str], list[str], list[str]]:
    """The binary, unary and comparison kinds that the IR's verifier takes for a dtype.

    Without the functions of floats, which are not exact: see ``test_functions.py``.
    """
    x = Sketch().scalar("x", dtype)
    binary = [k for k in arith.BINARY_KINDS if _accepted(arith.Binary(k, x, x))]
    exact = [k for k in arith.UNARY_KINDS if k not in arith.FLOAT_KINDS]
    unary = [k for k in exact if _accepted(arith.Unary(k, x))]
    compare = [k for k in arith.COMPARE_KINDS if _accepted(arith.Compare(k, x, x))]
    return binary, unary, compare


def scalar_kernel(dtype: DType, cast_to: Sequence[DType] = ALL_DTYPES) -> Kernel:
    """Block i computes everything from x[i], y[i].

    Row k of ``numbers`` holds the k-th of the binary, then the unary results, then
    ``select(x == y)``; ``truths`` the comparisons; ``as_<dtype>`` the casts of x.
    """
    s = Sketch(f"scalars_{dtype.name}")
    x, y = s.tensor("x", dtype, 1), s.tensor("y", dtype, 1)
    numbers, truths = s.tensor("numbers", dtype, 2), s.tensor("truths", dtypes.bool_, 2)
    casts = {d: s.tensor(f"as_{d.name}", d, 1) for d in cast_to}
    i = s.value(tile.BlockId(0), "i")
    a, b = s.value(tile.TensorLoad(x, (i,))), s.value(tile.TensorLoad(y, (i,)))
    for row, value in enumerate(_results(s, dtype, a, b)):
        s.add(tile.TensorStore(value, numbers, (s.const(row), i)))
    for row, value in enumerate(_comparisons(s, dtype, a, b)):
        s.add(tile.TensorStore(value, truths, (s.const(row), i)))
    for to, out in casts.items():
        s.add(tile.TensorStore(s.value(arith.Cast(a, to)), out, (i,)))
    return s.kernel(warps=1)


def _results(s: Sketch, dtype: DType, a: Value, b: Value) -> Iterator[Value]:
    binary, unary, compare = accepted(dtype)
    for kind in binary:
        yield s.value(arith.Binary(kind, a, b), kind)
    for kind in unary:
        yield s.value(arith.Unary(kind, a), kind)
    if compare:
        yield s.value(arith.Select(s.value(arith.Compare("eq", a, b)), a, b))


def _comparisons(s: Sketch, dtype: DType, a: Value, b: Value) -> Iterator[Value]:
    for kind in accepted(dtype)[2]:
        yield s.value(arith.Compare(kind, a, b), kind)


def tile_shape(dtype: DType) -> tuple[int, int]:
    """A small tile whose rows a bulk copy can store."""
    return 64, max(8, 16 // dtype.itemsize)


def tile_kernel(dtype: DType) -> Kernel:
    """The same on tiles whose elements are all x[i] or y[i].

    The k-th result is the tile (64 k, 0) of ``numbers``, ``truths`` or ``as_<dtype>`` (which have
    as many columns as ``tile_shape`` says).
    """
    s = Sketch(f"tiles_{dtype.name}")
    x, y = s.tensor("x", dtype, 1), s.tensor("y", dtype, 1)
    numbers, truths = s.tensor("numbers", dtype, 2), s.tensor("truths", dtypes.bool_, 2)
    casts = {d: s.tensor(f"as_{d.name}", d, 2) for d in ALL_DTYPES}
    i = s.value(tile.BlockId(0), "i")
    columns = max(tile_shape(d)[1] for d in (dtype, dtypes.bool_, *ALL_DTYPES))

    def full(tensor: Value) -> Value:
        value = s.value(tile.TensorLoad(tensor, (i,)))
        return s.value(arith.Full(value, (64, columns)))

    a, b = full(x), full(y)
    zero = s.const(0)
    for row, value in enumerate(_results(s, dtype, a, b)):
        s.add(tile.TmaStore(value, numbers, (s.const(64 * row), zero)))
    for row, value in enumerate(_comparisons(s, dtype, a, b)):
        s.add(tile.TmaStore(value, truths, (s.const(64 * row), zero)))
    for to, out in casts.items():
        s.add(tile.TmaStore(s.value(arith.Cast(a, to)), out, (zero, zero)))
    return s.kernel(warps=4)
