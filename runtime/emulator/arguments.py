"""The arguments of an emulation: what the slots of a kernel's parameters hold.

Scalars follow the rules of a launch on the GPU (``runtime.scalars``): nothing is truncated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledsl.codegen.ir.dtypes import DType, as_dtype, int_range
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import memory, protocol, tile
from tiledsl.codegen.ir.types import Scalar, TensorType
from tiledsl.errors import InvalidValue, LaunchError, TypeMismatch
from tiledsl.runtime.emulator.memory import Tensor
from tiledsl.runtime.emulator.values import as_scalar

_WRITES = tile.TensorStore | memory.TileStore | protocol.TmaStoreBuffer | protocol.TmaStoreShared


def bind(kernel: Kernel, args: Sequence[object]) -> list[object]:
    """A ``Tensor`` or a scalar for each parameter.

    Raises:
        TypeMismatch: a wrong number of arguments, or one of another type, dtype or rank.
        InvalidValue: a number that the parameter's dtype cannot hold.
        LaunchError: a read-only array that the kernel writes.
    """
    if len(args) != len(kernel.params):
        raise TypeMismatch(
            f"kernel {kernel.name}: expected {len(kernel.params)} arguments, got {len(args)}"
        )
    written = {op.tensor for op in kernel.body.walk() if isinstance(op, _WRITES)}
    bound: list[object] = []
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(param.type, Scalar):
            bound.append(_scalar(param.name, arg, param.type.dtype))
        else:
            bound.append(_tensor(param.name, arg, param.type, writes=param.value in written))
    return bound


def _scalar(name: str, arg: Any, dtype: DType) -> Any:
    if not isinstance(arg, bool | int | float | np.generic):
        raise TypeMismatch(
            f"argument {name}: expected a scalar of type {dtype}, got {type(arg).__name__}"
        )
    if dtype.kind == "bool":
        if not isinstance(arg, bool | np.bool_):
            raise TypeMismatch(f"argument {name}: expected a bool, got {arg!r}")
        return bool(arg)
    if dtype.is_integer:
        if not isinstance(arg, bool | int | np.bool_ | np.integer):
            raise TypeMismatch(
                f"argument {name}: expected an integer ({dtype}), got {arg!r}",
                hint=f"int({name}) drops the fraction",
            )
        low, high = int_range(dtype)
        if not low <= int(arg) <= high:
            raise InvalidValue(
                f"argument {name}: {int(arg)} does not fit {dtype}: expected {low} <= {name} <="
                f" {high}",
                hint="declare the parameter with a wider type" if dtype.bits < 64 else None,
            )
        return int(arg)
    return _float(name, arg, dtype)


def _float(name: str, arg: Any, dtype: DType) -> Any:
    too_large = InvalidValue(
        f"argument {name}: {arg!r} is too large for {dtype}",
        hint=f"declare {name} with a wider type, or pass float('inf')",
    )
    try:
        number = float(arg)
    except OverflowError:  # an int beyond float64
        raise too_large from None
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = as_scalar(number, dtype, saturate=False)
    # float8_e4m3fn has no infinity: it overflows to NaN.
    if math.isinf(number) != np.isinf(rounded) or math.isnan(number) != np.isnan(rounded):
        raise too_large
    return rounded


def _tensor(name: str, arg: object, wanted: TensorType, *, writes: bool) -> Tensor:
    if not isinstance(arg, np.ndarray):
        raise TypeMismatch(f"argument {name}: expected a NumPy array, got {type(arg).__name__}")
    try:
        dtype = as_dtype(arg.dtype)
    except TypeError:
        dtype = None
    if dtype != wanted.dtype or arg.ndim != wanted.rank or not arg.dtype.isnative:
        got = f"{arg.dtype.name if arg.dtype.isnative else arg.dtype} of rank {arg.ndim}"
        raise TypeMismatch(
            f"argument {name}: expected a {wanted.dtype} array of rank {wanted.rank}, got {got}"
        )
    if writes and not arg.flags.writeable:
        raise LaunchError(
            f"argument {name} is written by the kernel: expected a writeable array, got a"
            " read-only one"
        )
    return Tensor(name, arg)
