"""What a value is, in the words of error messages."""

from __future__ import annotations

import enum
import inspect
import types
from typing import Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.types import (
    BarrierType,
    NamedBarrierType,
    RingType,
    Scalar,
    SharedTile,
    StageType,
    TensorType,
    Tile,
)
from tiledsl.frontend.objects import FormatString, TracedObject

_LONGEST = 60  # characters of a repr in a message


def article(noun: str) -> str:
    """``noun`` behind "a" or "an"."""
    vowel = noun[0] in "aeioAEIO" or noun.startswith(("uint8", "mbarrier", "f8", "hour"))
    return f"{'an' if vowel and not noun.startswith('uint') else 'a'} {noun}"


def short_repr(x: object) -> str:
    """``repr(x)``, cut where it gets long."""
    try:
        text = repr(x)
    except Exception:  # a user's own, or that of an integer with thousands of digits
        return f"<{type(x).__name__}>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def describe(x: object) -> str:
    """ "a run-time int32", "a float32 tile of shape (128, 256)", "the compile-time int 5"."""
    if isinstance(x, Value):
        return _describe_value(x)
    if isinstance(x, TracedObject):
        return article(x.kind)
    if isinstance(x, FormatString):
        return "an f-string with run-time parts"
    if x is None:
        return "None"
    if isinstance(x, enum.Enum):
        return f"the compile-time {type(x).__name__}.{x.name}"
    if isinstance(x, bool | int | float | str | bytes):
        return f"the compile-time {type(x).__name__} {short_repr(x)}"
    if isinstance(x, DType):
        return f"the dtype {x}"
    if isinstance(x, tuple | list | dict | set):
        return f"a {type(x).__name__} of length {len(x)}"
    return _describe_object(x)


def _describe_value(value: Value) -> str:
    match value.type:
        case Scalar(dtype):
            return f"a run-time {dtype}"
        case Tile(shape, dtype):
            return f"{article(str(dtype))} tile of shape {shape}"
        case SharedTile(shape, dtype):
            return f"{article(str(dtype))} shared tile of shape {shape}"
        case TensorType(dtype, rank):
            return f"{article(str(dtype))} tensor of rank {rank}"
        case StageType(side):
            return f"a {side} stage"
        case BarrierType():
            return "an mbarrier"
        case RingType():
            return "a pipeline"
        case NamedBarrierType():
            return "a named barrier"
    return f"a value of type {value.type}"


def _describe_object(x: Any) -> str:
    if type(x).__name__ == "BoundMethod":  # of attributes.py, above this module
        return f"the method {x.name}, not called"
    if isinstance(x, type):
        return f"the class {x.__name__}"
    if isinstance(x, types.ModuleType):
        return f"the module {x.__name__}"
    if inspect.isroutine(x) or hasattr(x, "__tiledsl_function__"):
        return f"the function {getattr(x, '__name__', short_repr(x))}"
    return f"{article(type(x).__name__)} object"
