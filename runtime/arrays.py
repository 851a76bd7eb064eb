"""What a launch knows of an array, whichever framework made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tiledsl.codegen.ir.dtypes import DType

Place = Literal["host", "device"]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """What of an array argument selects a compiled variant.

    Attributes:
        dtype: element type.
        rank: number of dimensions, 1 ... 5.
        place: ``"device"``: GPU memory, the kernel is launched; ``"host"``: a NumPy array, the
            kernel is emulated.
    """

    dtype: DType
    rank: int
    place: Place = "device"

    def __str__(self) -> str:
        return f"{self.place} array of rank {self.rank}, {self.dtype}"


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar argument.

    Attributes:
        kind: ``"bool"``, ``"int"`` or ``"float"``.
        dtype: the dtype of a NumPy scalar; None for a Python number, which takes the dtype
            that the kernel's parameter has.
    """

    kind: Literal["bool", "int", "float"]
    dtype: DType | None = None

    def __str__(self) -> str:
        return f"scalar of type {self.dtype or self.kind}"


@dataclass(frozen=True, slots=True)
class ArrayArg:
    """An array argument as a launch reads it.

    Attributes:
        pointer: address of element (0, 0, ...). May be 0 for an array without elements.
        shape: extents.
        strides: strides in elements, one an extent.
        dtype: element type.
        device: ``"cpu"`` or the CUDA ordinal.
        readonly: whether the owner forbids writing.
        owner: the user's object, which keeps the memory alive. Not compared.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: Literal["cpu"] | int
    readonly: bool = False
    owner: Any = field(default=None, compare=False, repr=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether there are no elements."""
        return 0 in self.shape

    @property
    def place(self) -> Place:
        return "host" if self.device == "cpu" else "device"

    @property
    def spec(self) -> ArraySpec:
        return ArraySpec(self.dtype, self.rank, self.place)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major array without gaps: (3, 4, 5) gives (20, 5, 1)."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides)) if shape else ()
