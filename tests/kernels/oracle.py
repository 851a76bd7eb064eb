"""What a matrix product must be, and how far from it a right kernel may be.

The reference is the product in float64, rounded to float32 and then to the output's dtype. A
result may differ from it by

* one unit in the last place of the output, since a value near the middle between two output
  numbers may fall on either side, and
* the accumulation error ``K * 2**-23 * sigma`` with ``sigma[m, n]`` the root of the sum of
  ``(a[m, k] * b[n, k])**2``. Products of 8- or 11-bit significands are exact in float32; each
  addition loses at most one unit 2**-23 of the partial sum (tensor cores truncate). With inputs
  of independent random signs the partial sums grow like a random walk, whose size sigma is. A
  tensor core rounds the accumulator once for every 16 products, so that partial sums of up to
  16 sigma are covered. The textbook bound ``K * u * |a| @ |b|`` holds for every input, but at
  K = 4096 it is larger than one product, and would not notice a product that is missing.

Works on NumPy arrays and torch tensors alike; ``xp`` is the module.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

UNIT = 2.0**-23
# Digits of the significand behind the first, and the exponent of the smallest normal number.
FORMATS = {"bfloat16": (7, -126), "float16": (10, -14), "float32": (23, -126)}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name; bfloat16 comes from ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def fresh_seed() -> int:
    """A seed that no run had before, or the one in ``TILEDSL_SEED`` to repeat a run.

    Printed, so that pytest shows it when the test fails.
    """
    seed = int(os.environ.get("TILEDSL_SEED") or secrets.randbits(32))
    print(f"TILEDSL_SEED={seed}")
    return seed


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected product in the output's dtype (as float64), and what it may differ by."""

    expected: Any
    allowed: Any


def reference(a: Any, b: Any, out_dtype: str, xp: Any = np) -> Reference:
    """What ``a[..., M, K] @ b[..., N, K].T`` must be; ``b`` always with K last."""
    return round_to(*accumulated(a, b, xp), out_dtype, xp)


def accumulated(a: Any, b: Any, xp: Any = np) -> tuple[Any, Any]:
    """The product in float64, and the error that float32 accumulation may make."""
    a, b = _double(a, xp), _double(b, xp)
    product = a @ b.swapaxes(-1, -2)
    sigma = ((a * a) @ (b * b).swapaxes(-1, -2)) ** 0.5
    return product, a.shape[-1] * UNIT * sigma


def round_to(product: Any, error: Any, out_dtype: str, xp: Any = np) -> Reference:
    """The reference in ``out_dtype``."""
    digits, smallest = FORMATS[out_dtype]
    if xp is np:
        rounded = product.astype(np.float32).astype(numpy_dtype(out_dtype)).astype(np.float64)
        exponent = np.frexp(rounded)[1] - 1
        unit = np.ldexp(1.0, np.maximum(exponent, smallest) - digits)
    else:
        rounded = product.float().to(getattr(xp, out_dtype)).double()
        exponent = xp.frexp(rounded)[1] - 1
        unit = xp.ldexp(xp.ones_like(rounded), exponent.clamp(min=smallest) - digits)
    return Reference(rounded, unit + error)


def difference(c: Any, expected: Reference, xp: Any = np) -> str:
    """Where ``c`` is not what it must be, for people; empty if it is right."""
    error = abs(_double(c, xp) - expected.expected)
    wrong = ~(error <= expected.allowed)  # this way round NaN is wrong
    if not bool(wrong.any()):
        return ""
    if xp is not np:
        error, wrong = error.cpu().numpy(), wrong.cpu().numpy()
    places = np.argwhere(wrong)
    ranges = ", ".join(
        f"{low}..{high}" for low, high in zip(places.min(0), places.max(0), strict=True)
    )
    nans = int(np.isnan(error).sum())
    return (
        f"{len(places)} of {wrong.size} elements are wrong (NaN: {nans}), within [{ranges}];"
        f" largest error {np.nanmax(error) if nans < error.size else float('nan'):.3g},"
        f" the first at {tuple(int(i) for i in places[0])}"
    )


def _double(x: Any, xp: Any) -> Any:
    return x.astype(np.float64) if xp is np else x.double()


class NumpyArrays:
    """Random inputs and poisoned outputs for the emulator."""

    xp = np

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def normal(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Standard normal numbers."""
        return self.rng.standard_normal(shape, np.float32).astype(numpy_dtype(dtype))

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> Any:
        """NaN everywhere."""
        return np.full(shape, np.nan, numpy_dtype(dtype))


class TorchArrays:
    """Random inputs and poisoned outputs on the GPU."""

    def __init__(self, seed: int) -> None:
        import torch

        self.xp: Any = torch
        self.generator = torch.Generator("cuda").manual_seed(seed)

    def normal(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Standard normal numbers."""
        numbers = self.xp.randn(shape, device="cuda", generator=self.generator)
        return numbers.to(getattr(self.xp, dtype))

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> Any:
        """NaN everywhere."""
        kind = getattr(self.xp, dtype)
        return self.xp.full(shape, float("nan"), device="cuda", dtype=kind)


Arrays = NumpyArrays | TorchArrays


def inside(arrays: Arrays, shape: tuple[int, int], dtype: str) -> tuple[Any, Any]:
    """A matrix of NaN of ``shape`` inside of a larger one: (the matrix, the larger one).

    Two rows and 32 columns larger: the view starts at a multiple of 16 bytes, as TMA needs it,
    and a kernel that writes too far, or reads too far, shows.
    """
    rows, columns = shape
    whole = arrays.poisoned((rows + 2, columns + 32), dtype)
    return whole[1:-1, 16:-16], whole


def untouched(whole: Any, shape: tuple[int, int], xp: Any = np) -> bool:
    """Is everything around the matrix that ``inside`` made still NaN?"""
    values = _double(whole, xp)
    outside = xp.isnan(values)
    outside[1:-1, 16:-16] = True
    return bool(outside.all())
