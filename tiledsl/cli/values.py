"""Arguments on the command line: arrays, numbers, tensor maps and structs from text.

randn:128x64:bf16      an array, filled; see FILLS
a.npy   npy:a.npy:bf16 an array from a file
a                      an array with this name, from --array or an earlier --arg
tma(a, box=64x64, swizzle=128)
struct(a, null, i32:5, f32:1.5)
128   1.5   0x80   true   f16:1.5   null
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tiledsl.cli.usage import UsageError
from tiledsl.ptx import Struct, TensorMap, struct

__all__ = ["DTYPES", "Values", "load_array", "numbers"]

Array = np.ndarray[Any, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{short}{bits}": np.dtype(f"{name}{bits}")
       for short, name in (("s", "int"), ("i", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip

_Fill = Callable[[np.random.Generator, tuple[int, ...], np.dtype[Any], list[float]], Array]


def _bits(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], _: list[float]
) -> Array:
    raw = np.frombuffer(rng.bytes(math.prod(shape) * dtype.itemsize), np.uint8).copy()
    return raw.view(dtype).reshape(shape)


# Name: (number of arguments, what fills an array).
FILLS: dict[str, tuple[int, _Fill]] = {
    "randn": (0, lambda rng, shape, dtype, _: rng.standard_normal(shape).astype(dtype)),
    "uniform": (0, lambda rng, shape, dtype, _: rng.random(shape).astype(dtype)),
    "randint": (2, lambda rng, shape, dtype, a: rng.integers(
        int(a[0]), int(a[1]), shape, np.int64, endpoint=True).astype(dtype)),
    "bits": (0, _bits),
    "zeros": (0, lambda rng, shape, dtype, _: np.zeros(shape, dtype)),
    "ones": (0, lambda rng, shape, dtype, _: np.ones(shape, dtype)),
    "nan": (0, lambda rng, shape, dtype, _: np.full(shape, np.nan, np.float32).astype(dtype)),
    "full": (1, lambda rng, shape, dtype, a: np.full(shape, a[0]).astype(dtype)),
    "arange": (0, lambda rng, shape, dtype, _: np.arange(
        math.prod(shape)).astype(dtype).reshape(shape)),
}  # fmt: skip

_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.S)


def dtype_of(text: str, where: str) -> np.dtype[Any]:
    """The dtype with a name such as "bf16"."""
    found = DTYPES.get(text.strip())
    if found is None:
        raise UsageError(f"{where}: expected a type, one of {', '.join(DTYPES)}, got {text!r}")
    return found


def numbers(text: str, where: str) -> tuple[int, ...]:
    """Integers with an ``x`` between them: ``128x64``."""
    try:
        return tuple(int(part, 0) for part in text.strip().split("x"))
    except ValueError:
        raise UsageError(f"{where}: expected integers such as 128x64, got {text!r}") from None


def load_array(path: str, where: str, dtype: np.dtype[Any] | None = None) -> Array:
    """An array from an .npy file.

    Args:
        dtype: of the array, where NumPy's file format does not know it (bf16, fp8).
    """
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{where}: cannot read {path!r} as an array: {error}") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{where}: expected an .npy file with one array, got {path!r}")
    if dtype is not None:
        if array.dtype.itemsize == dtype.itemsize:
            return array.view(dtype)
        if array.dtype.kind != "V":
            return array.astype(dtype)
    if array.dtype.kind == "V":
        raise UsageError(
            f"{where}: {path!r} does not say its type, only {array.dtype.itemsize} bytes an"
            f" element: expected it behind the name, as in npy:{path}:bf16"
        )
    return array


class Values:
    """The named arrays of a command line, and the arguments that are made of them.

    Attributes:
        arrays: by name; those without one have none here.
        args: one for each parameter, for ``ptx.run``.
        labels: the name that each argument was given, or "".
    """

    def __init__(self, data_seed: int) -> None:
        self.data_seed = data_seed
        self.arrays: dict[str, Array] = {}
        self.args: list[Any] = []
        self.labels: list[str] = []
        self._made = 0

    def add_array(self, text: str) -> None:
        """``--array NAME=SPEC``."""
        where = f"--array {text}"
        name, spec = self._named(text)
        if not name:
            raise UsageError(f"{where}: expected NAME=ARRAY, such as a=randn:128x64:bf16")
        array = self._array(spec, where)
        if array is None:
            raise UsageError(
                f"{where}: expected FILL:SHAPE:TYPE, with a fill of {', '.join(FILLS)}, or a file"
                f" .npy, got {spec!r}"
            )
        self._define(name, array, where)

    def add_argument(self, text: str) -> None:
        """``--arg [NAME=]VALUE``."""
        where = f"--arg {text}"
        name, spec = self._named(text)
        array = self._array(spec, where)
        if array is not None:
            if name:
                self._define(name, array, where)
            value: Any = array
        else:
            value = self._value(spec, where)
            if name and isinstance(value, np.ndarray):
                self._define(name, value, where)
        self.args.append(value)
        self.labels.append(name)

    @staticmethod
    def _named(text: str) -> tuple[str, str]:
        """Name and value: in ``tma(a, box=8)`` the first ``=`` belongs to no name."""
        name, sign, rest = text.partition("=")
        if sign and _NAME.fullmatch(name.strip()):
            return name.strip(), rest.strip()
        return "", text.strip()

    def _define(self, name: str, array: Array, where: str) -> None:
        if name in self.arrays and self.arrays[name] is not array:
            raise UsageError(f"{where}: there are two arrays named {name!r}")
        self.arrays[name] = array

    # ------------------------------------------------------------------ arrays

    def _array(self, text: str, where: str) -> Array | None:
        """An array that the text describes, or None where it describes none."""
        if text.startswith("npy:"):
            path, _, kind = text.removeprefix("npy:").partition(".npy:")
            if kind:
                return load_array(path + ".npy", where, dtype_of(kind, where))
            return load_array(path, where)
        if text.endswith(".npy"):
            return load_array(text, where)
        head, *parts = re.split(r":(?![^(]*\))", text)
        call = _CALL.fullmatch(head)
        fill = call[1] if call else head
        if fill not in FILLS or not (parts or call):
            return None
        if len(parts) != 2:
            raise UsageError(f"{where}: expected {fill}:SHAPE:TYPE, such as {fill}:128x64:f32")
        shape, dtype = numbers(parts[0], where), dtype_of(parts[1], where)
        if min(shape) < 0:
            raise UsageError(f"{where}: expected extents from 0, got {parts[0]}")
        count, make = FILLS[fill]
        given = [_number(word, where) for word in _split(call[2])] if call else []
        if len(given) != count:
            raise UsageError(f"{where}: {fill} takes {count} numbers in brackets, got {len(given)}")
        if fill == "nan" and dtype.kind in "iu":
            raise UsageError(f"{where}: {parts[1]} has no NaN: expected a type of floats")
        self._made += 1
        rng = np.random.default_rng([self.data_seed, self._made])
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return make(rng, shape, dtype, given)
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(f"{where}: there is no such array: {error}") from None

    # ------------------------------------------------------------------ other values

    def _value(self, text: str, where: str) -> Any:
        if text in self.arrays:
            return self.arrays[text]
        if text == "null":
            return None
        if text in ("true", "false"):
            return text == "true"
        if call := _CALL.fullmatch(text):
            if call[1] == "tma":
                return self._tensor_map(_split(call[2]), where)
            if call[1] == "struct":
                return self._struct(_split(call[2]), where)
            raise UsageError(f"{where}: expected tma(...) or struct(...), got {call[1]}(...)")
        kind, colon, rest = text.partition(":")
        if colon and kind in DTYPES:
            with np.errstate(over="ignore"):
                return self._typed(kind, rest, where)
        if re.fullmatch(r"[-+]?(\d|\.\d|0[xX]|inf|nan).*", text):
            return _number(text, where)
        known = f"; there are: {', '.join(self.arrays)}" if self.arrays else ""
        raise UsageError(
            f"{where}: expected a number, FILL:SHAPE:TYPE, a file .npy, tma(...), struct(...),"
            f" null, or the name of an array, got {text!r}{known}"
        )

    def _typed(self, kind: str, text: str, where: str) -> Any:
        """A number of a type, as a NumPy scalar."""
        dtype, value = DTYPES[kind], _number(text, where)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if not isinstance(value, int) or not info.min <= value <= info.max:
                raise UsageError(
                    f"{where}: expected an integer from {info.min} to {info.max}, got {text}"
                )
        return np.asarray(value).astype(dtype)[()]

    def _struct(self, words: list[str], where: str) -> Struct:
        return struct(*(self._value(word, where) for word in words))

    def _tensor_map(self, words: list[str], where: str) -> TensorMap:
        """``tma(array, box=64x64, swizzle=128, ...)``."""
        array = self.arrays.get(words[0]) if words else None
        if array is None:
            known = ", ".join(self.arrays) or "none"
            raise UsageError(
                f"{where}: expected an array as the first word of tma(...), got"
                f" {words[0] if words else 'nothing'!r}; there are: {known}"
            )
        options: dict[str, str] = {}
        for word in words[1:]:
            name, _, value = (part.strip() for part in word.partition("="))
            if name not in _MAP_OPTIONS:
                raise UsageError(
                    f"{where}: expected {', '.join(_MAP_OPTIONS)} in tma(...), got {word!r}"
                )
            options[name] = value
        if "box" not in options:
            raise UsageError(f"{where}: expected a box in tma(...), such as box=64x64")
        if ("lower" in options) != ("upper" in options):
            raise UsageError(f"{where}: expected both of lower and upper, the corners of im2col")
        read = {
            name: numbers(value, f"{where}: {name}")
            for name, value in options.items()
            if name not in ("interleave", "fill")
        }
        return TensorMap(
            array,
            read["box"],
            swizzle=read.get("swizzle", (0,))[0],
            element_strides=read.get("strides"),
            interleave=options.get("interleave", "none"),
            oob_fill=options.get("fill", "zeros"),
            im2col=(read["lower"], read["upper"]) if "lower" in read else None,
        )


_MAP_OPTIONS = ("box", "swizzle", "strides", "interleave", "fill", "lower", "upper")


def _split(text: str) -> list[str]:
    """Words between commas, but for those in brackets."""
    words, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            words.append(text[start:at].strip())
            start = at + 1
    return [*words, text[start:].strip()] if text.strip() else []


def _number(text: str, where: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{where}: expected a number, got {text!r}") from None


def check_folder(path: str, where: str) -> None:
    """A file can be written only where its folder is."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{where}: there is no folder {str(folder)!r}")
