"""Tensors in global memory, and the annotations of a kernel's parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin

from tiledsl.codegen.ir.dtypes import DType, as_dtype
from tiledsl.errors import InvalidValue, TypeMismatch
from tiledsl.language.outside import outside_kernel

MAX_RANK = 5  # of a tensor map


class Tensor:
    """A tensor in global memory: an argument of the kernel. Used as an annotation.

    Extents are run-time values of type int32; dtype and rank are known at compile time, and each
    combination is a compiled variant of its own. The innermost dimension must be contiguous for
    ``td.tma_load`` and ``td.tma_store``; every other stride is free, as far as the hardware takes
    it (a multiple of 16 bytes), and is checked at the call.

    ``tensor[i, j]`` with one integer for each dimension reads one element, and
    ``tensor[i, j] = x`` writes one; indices outside of the tensor are the caller's fault.

    Example::

        @td.kernel(warps=4)
        def scale(x: td.Tensor, y: td.Tensor, factor: td.float32):
            i = td.block_id(0)
            if i < x.shape[0]:
                y[i] = x[i] * factor
    """

    def __init__(self) -> None:
        raise TypeMismatch(
            "td.Tensor is an annotation and cannot be created",
            hint="pass a torch, CuPy, JAX or NumPy array to the kernel; td.spec(shape, dtype)"
            " describes one for kernel.compile",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements, outermost first: int32 run-time values."""
        raise outside_kernel("Tensor.shape")

    @property
    def dtype(self) -> DType:
        """Element type, known at compile time."""
        raise outside_kernel("Tensor.dtype")

    @property
    def rank(self) -> int:
        """Number of dimensions, 1 to 5, known at compile time."""
        raise outside_kernel("Tensor.rank")

    @property
    def ndim(self) -> int:
        """The same as ``rank``, as NumPy calls it."""
        raise outside_kernel("Tensor.ndim")

    def __getitem__(self, indices: int | tuple[int, ...]) -> Any:
        """One element, read by every thread of the role."""
        raise outside_kernel("Tensor[...]")

    def __setitem__(self, indices: int | tuple[int, ...], value: Any) -> None:
        """Write one element, by one thread of the role; the value is converted to the dtype."""
        raise outside_kernel("Tensor[...] = ...")


class ConstantMarker:
    """What ``td.Constant`` adds to an annotation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "constant"


CONSTANT = ConstantMarker()
_T = TypeVar("_T")

# A parameter known at compile time: each value is a compiled variant of its own. To a type checker
# `td.Constant[int]` is `int`. The value may be any hashable Python object.
#
#     def gemm(a: td.Tensor, ..., *, BM: td.Constant[int] = 128): ...
Constant: TypeAlias = Annotated[_T, CONSTANT]


def is_constant(annotation: Any) -> bool:
    """Whether an annotation (resolved, no string) is ``td.Constant[...]`` or ``td.Constant``."""
    return get_origin(annotation) is Annotated and CONSTANT in annotation.__metadata__


def constant_type(annotation: Any) -> Any:
    """``T`` of ``td.Constant[T]``; None where any value is taken."""
    inner = get_args(annotation)[0]
    return None if isinstance(inner, TypeVar) or inner is Any else inner


@dataclass(frozen=True, slots=True)
class Spec:
    """The shape and dtype of a tensor, without data. Made by ``td.spec``.

    Attributes:
        shape: extents in elements, outermost first.
        dtype: element type.
    """

    shape: tuple[int, ...]
    dtype: DType


def spec(shape: int | Iterable[int], dtype: Any) -> Spec:
    """Describe a tensor for ``kernel.compile``, which needs no data.

    Args:
        shape: extents in elements, outermost first; one to five, none negative.
        dtype: a dtype of tiledsl, torch, NumPy or ml_dtypes, or its name.

    Raises:
        TypeMismatch: the shape is no sequence of integers, or the dtype is unknown.
        InvalidValue: too many extents, none, or a negative one.

    Example::

        gemm.compile(td.spec((4096, 4096), td.bfloat16), ...).ptx
    """
    try:
        given = shape if isinstance(shape, Iterable) else (shape,)
        extents = tuple(operator.index(extent) for extent in given)
    except TypeError:
        raise TypeMismatch(
            f"td.spec: expected a shape of integers, got {shape!r}",
            hint="write td.spec((rows, columns), dtype)",
        ) from None
    if not 1 <= len(extents) <= MAX_RANK or any(extent < 0 for extent in extents):
        raise InvalidValue(
            f"td.spec: expected one to {MAX_RANK} extents, none negative, got {extents}"
        )
    try:
        found = as_dtype(dtype)
    except TypeError as error:
        raise TypeMismatch(f"td.spec: {error}") from None
    return Spec(extents, found)
