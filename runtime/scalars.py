"""Scalar arguments: what they are, and their bytes as the kernel's parameter declares them."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Hashable
from typing import Any, Literal

from tiledsl.codegen.ir.dtypes import DType, as_dtype, int_range
from tiledsl.errors import InvalidValue, TypeMismatch
from tiledsl.runtime.arrays import ScalarSpec

_FORMATS = {
    "bool_": "<?", "int8": "<b", "int16": "<h", "int32": "<i", "int64": "<q",
    "uint8": "<B", "uint16": "<H", "uint32": "<I", "uint64": "<Q",
    "float16": "<e", "float32": "<f", "float64": "<d",
}  # fmt: skip

_DOUBLE = struct.Struct("<d")

_SPECS = {bool: ScalarSpec("bool"), int: ScalarSpec("int"), float: ScalarSpec("float")}


def scalar_spec(name: str, value: object) -> ScalarSpec | None:
    """The spec of a Python or NumPy number; None when ``value`` is neither."""
    found = _SPECS.get(type(value))
    if found is not None:
        return found
    if not _is_numpy_scalar(value):  # asked first, for numpy.float64 is a subclass of float
        if isinstance(value, int | float):  # such as an IntEnum
            return _SPECS[int if isinstance(value, int) else float]
        return None
    given: Any = value
    try:
        dtype = as_dtype(given.dtype)
    except TypeError as error:
        raise TypeMismatch(f"argument {name}: {error}") from None
    kind: Literal["bool", "int", "float"] = "int"
    if dtype.kind in ("bool", "float"):
        kind = "bool" if dtype.kind == "bool" else "float"
    return ScalarSpec(kind, dtype)


def _is_numpy_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # not imported: then it is none
    return numpy is not None and isinstance(value, numpy.generic)


def scalar_keyer(name: str, value: Any) -> Callable[[Any, int], Hashable]:
    """Reads the hashable stand-in of scalars of the type of ``value``; the stream is ignored.

    Within a type, equal stand-ins mean equal bytes: 0.0 and -0.0 differ, NaN equals itself.

    Raises:
        TypeMismatch: for a value that is no number.
    """
    kind = type(value)
    if kind is float:
        return _float_key
    if kind is int or kind is bool:
        return _int_key
    if _is_numpy_scalar(value):
        return _numpy_key
    if isinstance(value, int | float):
        return _repr_key
    raise TypeMismatch(f"argument {name}: expected an array or a number, got {_what(value)}")


def _float_key(value: float, stream: int) -> Hashable:
    return _DOUBLE.pack(value)


def _int_key(value: int, stream: int) -> Hashable:
    return value


def _numpy_key(value: Any, stream: int) -> Hashable:
    raw: bytes = value.tobytes()
    return raw


def _repr_key(value: Any, stream: int) -> Hashable:
    return repr(value)


def pack_scalar(name: str, value: Any, dtype: DType) -> bytes:
    """The bytes of ``value`` as a kernel parameter of type ``dtype``.

    Integers must fit exactly. Floats are rounded to nearest even; one that would overflow to
    infinity is refused. A bool takes one byte.

    Raises:
        TypeMismatch: for a value that is no number, a float given for an integer, or a number
            given for a bool.
        InvalidValue: for a number outside of the dtype's range.
    """
    spec = scalar_spec(name, value)
    if spec is None:
        raise TypeMismatch(
            f"argument {name}: expected a scalar of type {dtype}, got {_what(value)}",
            hint=_scalar_hint(name, value),
        )
    if dtype.kind == "bool":
        if spec.kind != "bool":
            raise TypeMismatch(f"argument {name}: expected a bool, got {value!r}")
        return struct.pack("<?", bool(value))
    if dtype.is_integer:
        return _pack_integer(name, value, spec, dtype)
    return _pack_float(name, value, dtype)


def _pack_integer(name: str, value: Any, spec: ScalarSpec, dtype: DType) -> bytes:
    if spec.kind == "float":
        raise TypeMismatch(
            f"argument {name}: expected an integer ({dtype}), got {value!r}",
            hint=f"int({name}) drops the fraction",
        )
    number = int(value)
    low, high = int_range(dtype)
    if not low <= number <= high:
        raise InvalidValue(
            f"argument {name}: {number} does not fit {dtype}: expected {low} <= {name} <= {high}",
            hint="declare the parameter with a wider type" if dtype.bits < 64 else None,
        )
    return struct.pack(_FORMATS[dtype.name], number)


def _pack_float(name: str, value: Any, dtype: DType) -> bytes:
    try:
        number = float(value)
        packed = _float_bytes(number, dtype)
    except OverflowError:
        packed = None
    if packed is None:
        raise InvalidValue(
            f"argument {name}: {value!r} is too large for {dtype}",
            hint=f"declare {name} with a wider type, or pass float('inf')",
        )
    return packed


def _float_bytes(number: float, dtype: DType) -> bytes | None:
    """None when a finite number would become infinite, or an infinite one NaN."""
    native = _FORMATS.get(dtype.name)
    if native is not None:
        return struct.pack(native, number)
    import ml_dtypes
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.asarray(_round_to_odd(number), getattr(ml_dtypes, dtype.name))
    same_kind = math.isinf(number) == math.isinf(float(rounded))
    if not same_kind or math.isnan(number) != math.isnan(float(rounded)):
        return None  # float8_e4m3fn has no infinity: it overflows to NaN
    return rounded.tobytes()


def _round_to_odd(number: float) -> Any:
    """``number`` as a NumPy float32 that rounds on to a narrower type as ``number`` would.

    ml_dtypes converts by way of float32. Rounding to nearest twice goes wrong next to a tie;
    setting the last bit whenever something was cut off keeps it from becoming one.
    """
    import numpy as np

    single = np.float32(number)
    if not math.isfinite(single) or float(single) == number:
        return single
    bits = int(single.view(np.uint32))
    if abs(float(single)) > abs(number):
        bits -= 1
    return np.uint32(bits | 1).view(np.float32)


def _what(value: Any) -> str:
    shape = getattr(value, "shape", None)
    kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    return f"{value!r}" if shape is None else f"a {kind} of shape {tuple(shape)}"


def _scalar_hint(name: str, value: Any) -> str | None:
    if getattr(value, "shape", None) == ():
        return f"{name}.item() (for an array on the GPU it waits for the GPU)"
    return None
