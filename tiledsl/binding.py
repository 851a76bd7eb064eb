"""Binding: from a call's arguments to parameter types, constants, a grid and a variant's key."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod
from operator import index
from types import SimpleNamespace
from typing import Any

from tiledsl.codegen.ir.dtypes import DType, as_dtype
from tiledsl.codegen.ir.exact import exact
from tiledsl.codegen.nvptx.targets import TARGETS
from tiledsl.errors import InvalidValue, LaunchError, TypeMismatch
from tiledsl.frontend.build import (
    Parameter,
    ParamSpec,
    ScalarSpec,
    TensorSpec,
    parse_signature,
)
from tiledsl.language.grid import Persistent
from tiledsl.language.tensor import Spec
from tiledsl.runtime.arguments import classify
from tiledsl.runtime.arrays import ArraySpec

# Keywords of ``Kernel.launch`` and ``Kernel.compile``.
RESERVED = ("grid", "stream", "target")

Grid = int | tuple[int, ...] | Callable[[Any], Any]


class Binder:
    """The parameters of one kernel.

    Attributes:
        name: of the kernel, for messages.
        parameters: all of them, in order.
        run_time: names of those that are no constants.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.parameters: tuple[Parameter, ...] = parse_signature(function)
        for parameter in self.parameters:
            if parameter.name in RESERVED:
                raise TypeMismatch(
                    f"kernel {function.__name__}: a parameter cannot be called"
                    f" {parameter.name!r}, which is a keyword of the launch",
                    hint=f"rename it, such as {parameter.name}_",
                )
        self.name = function.__name__
        self.signature = inspect.signature(function)
        self.run_time = [p.name for p in self.parameters if p.kind != "constant"]

    @property
    def run_time_first(self) -> bool:
        """Whether constants stand behind all other parameters."""
        kinds = [p.kind != "constant" for p in self.parameters]
        return all(kinds[: len(self.run_time)])

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        for given in kwargs:
            if given not in self.signature.parameters:
                close = difflib.get_close_matches(given, self.signature.parameters, 1)
                raise TypeMismatch(
                    f"kernel {self.name} has no parameter {given!r}",
                    hint=f"did you mean {close[0]!r}?"
                    if close
                    else f"its signature is {self.name}{self.signature}",
                )
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeMismatch(
                f"kernel {self.name}: {error}",
                hint=f"its signature is {self.name}{self.signature}",
            ) from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        for p in self.parameters:
            if p.kind == "constant":
                self._check_constant(p, values[p.name])
        return values

    def _check_constant(self, parameter: Parameter, value: Any) -> None:
        """A constant must be a Python value of the annotated type, never an array."""
        wanted = parameter.constant_type
        is_array = hasattr(value, "__dlpack__") or isinstance(value, Spec)
        kinds = wanted if isinstance(wanted, tuple) else () if wanted is None else (wanted,)
        if isinstance(value, bool):  # to Python an int, but hardly meant as one
            fits = not kinds or bool in kinds or object in kinds
        else:
            fits = not kinds or isinstance(value, kinds)
            fits = fits or (float in kinds and isinstance(value, int))
        if is_array or not fits:
            name = " or ".join(kind.__name__ for kind in kinds) or "a Python value"
            got = f"an array of type {type(value).__name__}" if is_array else f"{value!r}"
            raise TypeMismatch(
                f"constant {parameter.name} of kernel {self.name}: expected {name}, known at"
                f" compile time, got {got}",
                hint=f"annotate {parameter.name} as td.Tensor to pass an array"
                if is_array
                else f"write {parameter.name}: td.Constant[{type(value).__name__}] to allow this",
            )

    def spec(self, name: str, given: Any) -> ParamSpec:
        """What the frontend needs to know of a run-time argument."""
        parameter = next(p for p in self.parameters if p.name == name)
        if isinstance(given, ArraySpec):
            if parameter.kind == "scalar":
                raise TypeMismatch(
                    f"argument {name} of kernel {self.name}: expected a {parameter.dtype}"
                    f" number, got an array of rank {given.rank}",
                    hint=f"annotate {name} as td.Tensor to pass an array",
                )
            return TensorSpec(given.dtype, given.rank)
        if parameter.kind == "tensor":
            raise TypeMismatch(
                f"argument {name} of kernel {self.name}: expected an array, got a number",
                hint=f"annotate {name} with a dtype such as td.float32 to pass a number",
            )
        if parameter.dtype is not None:
            return ScalarSpec(parameter.dtype)
        if isinstance(given, DType):
            return ScalarSpec(given)
        inferred = given.dtype or as_dtype(
            {"bool": "bool_", "int": "int32", "float": "float32"}[given.kind]
        )
        return ScalarSpec(inferred)

    @staticmethod
    def described(name: str, value: Any) -> Any:
        """A spec for what ``compile`` was given in the place of an argument."""
        if isinstance(value, Spec):
            return ArraySpec(value.dtype, len(value.shape))
        if isinstance(value, DType):
            return value
        return classify(name, value)

    def key(self, bound: Mapping[str, Any], params: dict[str, ParamSpec]) -> Hashable:
        """What selects a variant: argument types and constants, by value and type."""
        constants = []
        for p in self.parameters:
            if p.kind != "constant":
                continue
            try:
                constants.append(exact(bound[p.name]))
            except TypeError as error:
                raise TypeMismatch(
                    f"constant {p.name} of kernel {self.name}: expected a hashable value, got"
                    f" {type(bound[p.name]).__name__} ({error})",
                    hint="pass a tuple instead of a list, or a frozen dataclass",
                ) from None
        return tuple(params.values()), tuple(constants)

    def blocks(
        self, grid: Grid | Persistent | None, bound: Mapping[str, Any]
    ) -> tuple[int, ...] | None:
        """The grid as one to three ints; None for a persistent one."""
        chosen: Any = grid
        if isinstance(chosen, Persistent):
            return None
        if chosen is None:
            raise LaunchError(
                f"kernel {self.name} was called without a grid",
                hint=f"write {self.name}[grid](...), or declare it with"
                " @td.kernel(grid=td.persistent)",
            )
        if callable(chosen):
            try:
                chosen = chosen(SimpleNamespace(**bound))
            except AttributeError as error:
                raise LaunchError(
                    f"kernel {self.name}: its grid function failed: {error}",
                    hint=f"its argument has the kernel's parameters: {', '.join(bound)}",
                ) from error
        blocks = tuple(chosen) if isinstance(chosen, tuple | list) else (chosen,)
        from tiledsl.runtime.grid import MAX_GRID

        numbers = [_number(extent) for extent in blocks]
        if not 1 <= len(numbers) <= 3 or None in numbers:
            raise LaunchError(
                f"kernel {self.name}: expected a grid of one to three numbers of blocks,"
                f" got {chosen!r}"
            )
        for axis, (number, limit) in enumerate(zip(numbers, MAX_GRID, strict=False)):
            if number is not None and number > limit:
                raise LaunchError(
                    f"kernel {self.name}: expected at most {limit} blocks in dimension {axis} of"
                    f" the grid, got {number}",
                    hint="put the largest extent in dimension 0" if axis else None,
                )
        return tuple(number for number in numbers if number is not None)


def check_cluster(cluster: Any) -> tuple[int, ...] | None:
    """The argument ``cluster`` of ``@td.kernel`` as a tuple of one to three ints, or None.

    Raises:
        InvalidValue: something else, or more blocks than a portable cluster has.
    """
    if cluster is None:
        return None
    extents = [_number(extent) for extent in cluster] if isinstance(cluster, tuple | list) else []
    found = tuple(extent for extent in extents if extent)
    if not 1 <= len(extents) <= 3 or len(found) < len(extents):
        raise InvalidValue(
            f"cluster: expected one to three numbers of blocks, each at least 1, got {cluster!r}",
            hint="write cluster=(2, 1), or cluster=(2,) for blocks along one axis",
        )
    size = prod(found)
    most = max(target.cluster_blocks for target in TARGETS.values())
    if size > most:
        more = (
            ": larger clusters are not portable, and not every GPU can place them"
            if size <= 16
            else ""
        )
        raise InvalidValue(
            f"cluster: expected at most {most} blocks, got {found} = {size} blocks{more}",
            hint="use a smaller cluster, such as cluster=(2, 1)",
        )
    return found


def _number(extent: Any) -> int | None:
    """An extent of a grid as an int, or None if it is none."""
    try:
        number = index(extent)
    except TypeError:
        return None
    return None if isinstance(extent, bool) or number < 0 else number
