"""Elementwise kernels: random expressions, and the functions of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td
from tests.frontend.programs import define
from tests.kernels.expressions import Generator, NumPy, kernel_source, plain_source
from tests.kernels.places import Place, poisoned

SHAPES = ((64, 8), (64, 40), (128, 64), (256, 24))


def run_expression(
    place: Place, rng: np.random.Generator, shape: tuple[int, int], functions: bool, depth: int = 4
) -> None:
    """A random expression of float32 tiles, which is what NumPy computes.

    The GPU may contract ``x * y + z`` into one rounding, so its results may differ from NumPy's by
    what was rounded on the way; the emulator's may not, without ``functions``.
    """
    rows, columns = shape
    text = Generator(int(rng.integers(1 << 31)), rows, columns, functions).whole(depth)
    kernel = td.kernel(grid=1, warps=4 if rows == 64 else 8)(
        define(kernel_source(text, rows, columns), td=td)
    )
    x, y, u, v = (
        rng.standard_normal(extents).astype(np.float32)
        for extents in (shape, shape, (rows,), (columns,))
    )
    s, t = np.float32(rng.uniform(-2, 2)), np.float32(rng.uniform(0.5, 2))
    out = place.put(poisoned(shape, np.float32))
    kernel(*map(place.put, (x, y, u, v)), out, float(s), float(t))
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(define(plain_source(text), td=NumPy)(x, y, u, v, s, t), shape)
    found = place.get(out)
    if functions:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3, err_msg=text)
    elif place.contracts:
        # A few roundings on the way; where they decide a comparison, another branch is taken.
        scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0))
        close = np.isclose(found, expected, rtol=1e-5, atol=2e-5 * scale, equal_nan=True)
        assert close.mean() > 0.99, f"{text}: {np.count_nonzero(~close)} of {close.size} differ"
    else:
        np.testing.assert_array_equal(found, expected, err_msg=text)


# ------------------------------------------------------------------------- functions of floats


@td.kernel(grid=1, warps=4)
def apply(x: td.Tensor, y: td.Tensor, one: td.Tensor, *, function: td.Constant):
    """y = function(x) by tiles, and one[i] = function(x[i, 0]) by numbers."""
    M, N = y.shape
    for m in range(td.cdiv(M, 64)):
        for n in range(td.cdiv(N, 32)):
            td.store(function(td.load(x, (m * 64, n * 32), (64, 32))), y, (m * 64, n * 32))
    for i in range(M):
        one[i] = function(x[i, 0])


# Allowed error in units in the last place of float32, and the range of arguments.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, tuple[float, float]]] = {
    "exp": (np.exp, 4, (-80, 80)),
    "exp2": (np.exp2, 4, (-120, 120)),
    "log": (np.log, 4, (1e-30, 1e30)),
    "log2": (np.log2, 4, (1e-30, 1e30)),
    "sqrt": (np.sqrt, 1, (0, 1e30)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 4, (1e-30, 1e30)),
    "tanh": (np.tanh, 4, (-10, 10)),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), 4, (-5, 5)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 6, (-80, 80)),
}
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)
EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 0.5, 88.9, -104)


def run_function(place: Place, rng: np.random.Generator, name: str, dtype: Any) -> None:
    """A function of random numbers of many magnitudes and of the edges, beside float64."""
    exact, units, (low, high) = FUNCTIONS[name]
    small = max(low, 1e-30)
    x = rng.uniform(low, high, (100, 50))
    x[:40] = np.exp(rng.uniform(np.log(small), np.log(high), (40, 50)))
    if low < 0:
        x[:20] *= -1
    x.ravel()[: len(EDGES)] = EDGES
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        wide = exact(x.astype(np.float64))
        expected = wide.astype(np.float32).astype(dtype).astype(np.float64)
    y, one = place.put(poisoned(x.shape, dtype)), place.put(poisoned(x.shape[:1], dtype))
    apply(place.put(x), y, one, function=getattr(td, name))
    found, scalars = place.get(y), place.get(one)
    assert scalars.tobytes() == np.ascontiguousarray(found[:, 0]).tobytes(), "numbers as tiles"
    _check(found.astype(np.float64), expected, wide, dtype, units, x, name)


def _check(
    found: Any, expected: Any, wide: Any, dtype: Any, units: float, x: Any, name: str
) -> None:
    info = ml_dtypes.finfo(dtype)
    last = 2.0 ** np.clip(np.frexp(expected)[1] - 1, float(info.minexp), None) * float(info.eps)
    # A 16-bit result is float32's, rounded: half a unit more where that falls on the other side.
    allowed = last * (units if np.dtype(dtype).itemsize == 4 else 1)
    with np.errstate(all="ignore"):
        error = np.abs(found - expected)
    special = ~np.isfinite(expected)
    right = np.where(
        special, (found == expected) | (np.isnan(found) & np.isnan(expected)), error <= allowed
    )
    # At the upper end a result may be infinite that lies within the error of the largest number.
    right |= (np.abs(wide) > float(info.max) * (1 - 1e-6)) & (np.sign(found) == np.sign(wide))
    if not right.all():
        at = tuple(int(i) for i in np.argwhere(~right)[0])
        raise AssertionError(
            f"{name}({x[at]!r}) of {np.dtype(dtype)}: {found[at]!r}, not {expected[at]!r};"
            f" {(~right).sum()} of {right.size} are wrong"
        )
