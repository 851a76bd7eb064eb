"""From a kernel's Python function to tile-level IR: the frontend's entry."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.errors import SyntaxNotSupported, TypeMismatch
from tiledsl.frontend.source import function_loc
from tiledsl.language.tensor import Tensor, constant_type, is_constant

if TYPE_CHECKING:
    from tiledsl.codegen.ir.kernel import Kernel


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A run-time parameter that is a tensor."""

    dtype: DType
    rank: int


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A run-time parameter that is a number."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A parameter that is known at compile time."""

    value: Any


ParamSpec = TensorSpec | ScalarSpec | ConstantSpec


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel, as its annotation declares it.

    Attributes:
        kind: ``"tensor"``, ``"scalar"``, ``"constant"``, or ``"inferred"`` from the argument.
        dtype: of a scalar.
        constant_type: the Python type of a constant, or several; None for any.
        default: ``inspect.Parameter.empty`` where there is none.
    """

    name: str
    kind: str
    dtype: DType | None = None
    constant_type: type | tuple[type, ...] | None = None
    default: Any = inspect.Parameter.empty


def parse_signature(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order.

    Raises:
        TypeMismatch: no Python function, or an annotation that says nothing about a parameter.
        SyntaxNotSupported: ``*args`` or ``**kwargs``.
        NameNotFound: an annotation with an unknown name.
    """
    if not isinstance(function, types.FunctionType):
        raise TypeMismatch(f"@td.kernel: expected a Python function, got {type(function).__name__}")
    loc = function_loc(function)
    try:
        annotations = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # A name under `if TYPE_CHECKING`, or a dtype, which typing does not take for a type.
        annotations = {
            name: _resolve(function, text) for name, text in function.__annotations__.items()
        }
    found: list[Parameter] = []
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise SyntaxNotSupported(
                f"kernel {function.__name__}: parameter {stars}{name}", loc,
                hint="name each parameter; a td.Constant may be a tuple",
            )  # fmt: skip
        annotation = annotations.get(name, parameter.empty)
        found.append(_parameter(function, name, annotation, parameter.default))
    return tuple(found)


def _resolve(function: types.FunctionType, annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    closure = dict(
        zip(
            function.__code__.co_freevars,
            (_contents(cell) for cell in function.__closure__ or ()),
            strict=True,
        )
    )
    try:
        found = eval(annotation, function.__globals__, closure)
        # A quoted name under `from __future__ import annotations` is a string in a string.
        return eval(found, function.__globals__, closure) if isinstance(found, str) else found
    except Exception as error:
        raise TypeMismatch(
            f"kernel {function.__name__}: the annotation {annotation!r} cannot be resolved:"
            f" {error}",
            function_loc(function),
        ) from None


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _plain_types(wanted: Any) -> type | tuple[type, ...] | None:
    """What ``isinstance`` takes for an annotation such as ``tuple[int, ...]`` or ``int | None``."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        found: list[type] = []
        for one in map(_plain_types, typing.get_args(wanted)):
            if one is None:
                return None
            found += one if isinstance(one, tuple) else [one]
        return tuple(found)
    if origin is typing.Literal:
        return tuple({type(value) for value in typing.get_args(wanted)})
    plain = wanted if origin is None else origin
    try:
        isinstance(None, plain)
    except TypeError:  # a protocol, a TypedDict, a type variable: any value may be meant
        return None
    return plain if isinstance(plain, type) else None


def _parameter(function: types.FunctionType, name: str, annotation: Any, default: Any) -> Parameter:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return Parameter(name, "inferred", default=default)
    if annotation is Tensor:
        return Parameter(name, "tensor", default=default)
    if isinstance(annotation, DType):
        return Parameter(name, "scalar", dtype=annotation, default=default)
    if is_constant(annotation):
        wanted = _plain_types(constant_type(annotation))
        return Parameter(name, "constant", constant_type=wanted, default=default)
    shown = getattr(annotation, "__name__", annotation)
    hints = {int: "td.int32", float: "td.float32", bool: "td.bool_"}
    example = hints.get(annotation, "td.Tensor, a dtype such as td.int32,")
    raise TypeMismatch(
        f"kernel {function.__name__}: parameter {name} is annotated {shown}, which is neither"
        " td.Tensor nor a dtype nor td.Constant[...]",
        function_loc(function),
        hint=f"write {name}: {example} for a run-time value, or {name}: td.Constant[{shown}]",
    )


def build_kernel(
    function: Callable[..., Any],
    params: Mapping[str, ParamSpec],
    *,
    name: str,
    persistent: bool = False,
    warps: int | None = None,
    target: str = "sm_90a",
    cluster: tuple[int, ...] | None = None,
) -> Kernel:
    """Trace a kernel for given parameters.

    Args:
        function: the Python function under ``@td.kernel``.
        params: what each of its parameters is, in any order; all must be there.
        name: of the kernel in the PTX; characters that PTX does not take become underscores.
        persistent: whether the grid is one block for each multiprocessor.
        warps: warps of a kernel without roles; None for the default.
        target: such as ``"sm_90a"``.
        cluster: blocks of a cluster along each of its axes; None for a kernel without clusters.

    Returns:
        The kernel at tile level, verified.

    Raises:
        TileError: the user's kernel is wrong; with the line.
    """
    # Tracing needs most of the compiler: imported when a kernel is compiled, not with tiledsl.
    from tiledsl.frontend.trace import trace_kernel

    assert isinstance(function, types.FunctionType)
    return trace_kernel(
        function,
        params,
        name=name,
        persistent=persistent,
        warps=warps,
        target=target,
        cluster=cluster,
    )
