"""Numbers under emulation: how scalars and register tiles are held, and conversion between dtypes.

A bool_ scalar is a Python ``bool``, an integer scalar a Python ``int`` inside the range of its
dtype, a float scalar a NumPy scalar of its dtype. A register tile is a NumPy array with the rows of
one part, and is never changed once made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType, int_range
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment

Array = NDArray[Any]

_NUMPY: dict[DType, np.dtype[Any]] = {
    dtypes.bool_: np.dtype(np.bool_),
    dtypes.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    dtypes.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
} | {d: np.dtype(d.name) for d in dtypes.ALL_DTYPES if d.is_integer}
_NUMPY |= {d: np.dtype(d.name) for d in (dtypes.float16, dtypes.float32, dtypes.float64)}

# Floats that NumPy does not round to by itself: reached from float32.
_NARROW = (dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2)
# Dtypes whose every value float32 holds exactly.
_EXACT_IN_FLOAT32 = {*_NARROW, dtypes.bool_, dtypes.float16, dtypes.float32} | {
    d for d in dtypes.ALL_DTYPES if d.is_integer and d.bits <= 16
}
_FP8_LARGEST = {dtypes.float8_e4m3fn: 448.0, dtypes.float8_e5m2: 57344.0}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) dtype of the same name."""
    return _NUMPY[dtype]


def as_scalar(value: bool | int | float, dtype: DType, *, saturate: bool = True) -> Any:
    """A number that fits as a scalar of ``dtype``; floats are rounded, once."""
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_integer:
        return int(value)
    wide = np.asarray(value, np.float64)
    return convert(wide, dtypes.float64, dtype, saturate=saturate)[()]


def wrap(dtype: DType) -> Callable[[int], int]:
    """The function that brings an integer back into the range of ``dtype``, modulo 2**bits."""
    low, high = int_range(dtype)
    span = high - low + 1

    def wrapped(value: int) -> int:
        return value if low <= value <= high else (value - low) % span + low

    return wrapped


def to_float32(values: Array) -> NDArray[np.float32]:
    """An array as float32; exact for every float of at most 32 bits.

    bfloat16 is the upper half of a float32, which is several times faster to say than to convert.
    """
    if values.dtype == ml_dtypes.bfloat16:
        return (values.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32, copy=False)


def convert(values: Array, source: DType, target: DType, *, saturate: bool = True) -> Array:
    """``cast`` on an array: see ``codegen.ir.ops.arith.Cast`` for the meaning.

    Without ``saturate`` what is too large for fp8 becomes its infinity, or NaN for lack of one.
    """
    if source == target:
        return values
    if source.is_float and source.bits < 32:
        values = to_float32(values)
    if target.kind == "bool":
        return np.asarray(values != 0)
    if target.is_integer:
        return _to_integer(values, target) if source.is_float else _astype(values, target)
    if target not in _NARROW:
        return _astype(values, target)
    if source in _EXACT_IN_FLOAT32:
        exact = values.astype(np.float32)
    else:
        exact = _integer_to_odd(values) if source.is_integer else _float_to_odd(values)
    largest = _FP8_LARGEST.get(target)
    if largest is not None and saturate:
        exact = np.clip(exact, np.float32(-largest), np.float32(largest))
    return _astype(exact, target)


def _astype(values: Array, target: DType) -> Array:
    return np.asarray(values.astype(numpy_dtype(target)))


def _to_integer(values: Array, target: DType) -> Array:
    """Truncate towards zero and saturate; NaN becomes 0."""
    low, high = int_range(target)
    whole = np.trunc(values.astype(np.float64))
    # `high + 1` is a power of two, so exact as a float, which `high` may not be.
    above, below = whole >= float(high + 1), whole < float(low)
    inside = np.where(np.isnan(whole) | above | below, 0.0, whole).astype(numpy_dtype(target))
    clipped = np.where(above, np.array(high, inside.dtype), inside)
    return np.where(below, np.array(low, inside.dtype), clipped)


def _float_to_odd(values: Array) -> NDArray[np.float32]:
    """float64 to float32, rounded to odd: rounding again, to fewer bits, is then right.

    What float32 does not hold exactly becomes that neighbour whose last bit is one, which no
    shorter format can mistake for a tie.
    """
    near = values.astype(np.float32)
    back = near.astype(np.float64)
    even = (near.view(np.uint32) & np.uint32(1)) == 0
    towards = np.where(back > values, np.float32(-np.inf), np.float32(np.inf))
    other = np.nextafter(near, towards)
    return np.where((back != values) & even & ~np.isnan(values), other, near)


def _integer_to_odd(values: Array) -> NDArray[np.float32]:
    """32-bit and 64-bit integers to float32, rounded to odd."""
    if values.dtype.itemsize < 8:
        return _float_to_odd(values.astype(np.float64))
    large = (values >= 1 << 32) | ((values <= -(1 << 32)) if values.dtype.kind == "i" else False)
    # float64 holds 53 bits: of large numbers, fold the lowest 16 into one sticky bit.
    sticky = (values >> 16) | ((values & 0xFFFF) != 0)
    small = _float_to_odd(np.where(large, 0, values).astype(np.float64))
    return np.where(large, _float_to_odd(sticky.astype(np.float64)) * np.float32(65536), small)


# ------------------------------------------------------------------------ register tiles


@dataclass(frozen=True, slots=True)
class Share:
    """What one part of a role holds of a register tile.

    Attributes:
        shape: of the part's array.
        step: first elements along axis 0 of two neighbouring parts differ by this; 0 where all
            parts hold the whole.
        parts: that share the tile; None where it has no layout.
    """

    shape: tuple[int, ...]
    step: int = 0
    parts: int | None = None

    def first(self, part: int) -> int:
        """Index along axis 0 of the first element that a part holds."""
        return self.step * part

    def rows(self, part: int) -> slice:
        """The run of indices along axis 0 that a part holds."""
        first = self.first(part)
        return slice(first, first + self.shape[0])


def share_of(shape: tuple[int, ...], layout: object) -> Share:
    """How a register tile of ``shape`` is dealt to the parts of its role."""
    if isinstance(layout, WgmmaFragment):
        return Share((layout.rows, layout.columns), layout.rows, layout.parts)
    if isinstance(layout, SliceLayout):
        parent = layout.parent
        if layout.axis == 1:
            return Share((parent.rows,), parent.rows, parent.parts)
        return Share((parent.columns,), 0, parent.parts)
    return Share(shape)
