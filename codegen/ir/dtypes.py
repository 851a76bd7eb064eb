"""Element types: one frozen object each, named as torch and ml_dtypes name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: the public name, such as ``"bfloat16"``.
        short: the name in printed IR, such as ``"bf16"``.
        kind: ``"int"``, ``"uint"``, ``"float"`` or ``"bool"``.
        bits: storage size in bits (``bool_`` is stored in 8).
    """

    name: str
    short: str
    kind: str
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


bool_ = DType("bool_", "i1", "bool", 8)
int8 = DType("int8", "i8", "int", 8)
int16 = DType("int16", "i16", "int", 16)
int32 = DType("int32", "i32", "int", 32)
int64 = DType("int64", "i64", "int", 64)
uint8 = DType("uint8", "u8", "uint", 8)
uint16 = DType("uint16", "u16", "uint", 16)
uint32 = DType("uint32", "u32", "uint", 32)
uint64 = DType("uint64", "u64", "uint", 64)
float8_e4m3fn = DType("float8_e4m3fn", "f8e4m3", "float", 8)
float8_e5m2 = DType("float8_e5m2", "f8e5m2", "float", 8)
float16 = DType("float16", "f16", "float", 16)
bfloat16 = DType("bfloat16", "bf16", "float", 16)
float32 = DType("float32", "f32", "float", 32)
float64 = DType("float64", "f64", "float", 64)

ALL_DTYPES: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64,
)  # fmt: skip

_BY_NAME = {dtype.name: dtype for dtype in ALL_DTYPES} | {"bool": bool_}


def as_dtype(value: Any) -> DType:
    """Our dtype for a tiledsl, NumPy, ml_dtypes or torch dtype, or a name.

    Raises:
        TypeError: when no tiledsl dtype has that name.
    """
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str) or not name:
        name = str(value)
    if isinstance(value, type):
        name = value.__name__
    dtype = _BY_NAME.get(name.removeprefix("torch."))
    if dtype is None:
        known = ", ".join(d.name for d in ALL_DTYPES)
        raise TypeError(f"no tiledsl dtype for {value!r}: expected one of {known}")
    return dtype


def int_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool dtype."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def promote(left: DType, right: DType) -> DType | None:
    """The dtype in which ``left op right`` is computed, or None when there is none.

    Integers widen as in NumPy (int32 with uint32 gives int64; int64 with uint64 has no common
    type). An integer with a float takes the float's type. float16 with bfloat16 gives float32.
    fp8 types have no arithmetic: they promote only with themselves.
    """
    if left == right:
        return left
    if left.kind == "bool":
        return right
    if right.kind == "bool":
        return left
    if left.is_float or right.is_float:
        if not (left.is_float and right.is_float):
            result = left if left.is_float else right
            return None if result.bits == 8 else result
        if 8 in (left.bits, right.bits):
            return None
        if left.bits == right.bits:
            return float32
        return left if left.bits > right.bits else right
    if left.kind == right.kind:
        return left if left.bits > right.bits else right
    signed, unsigned = (left, right) if left.kind == "int" else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    wider = {8: int16, 16: int32, 32: int64}
    return wider.get(unsigned.bits)
