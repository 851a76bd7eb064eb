"""``@td.function``: helpers that kernels inline; and functions defined inside of a kernel."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

from tiledsl.frontend.source import FunctionNode, FunctionSource

if TYPE_CHECKING:
    from tiledsl.frontend.scope import Frame

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Function(Generic[_P, _R]):
    """A Python function that kernels inline. Made by ``@td.function``.

    Called outside of a kernel it is the plain Python function.
    """

    __tiledsl_function__ = True

    def __init__(self, function: Callable[_P, _R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<tiledsl function {getattr(self, '__qualname__', '?')}>"


def function(function: Callable[_P, _R]) -> Function[_P, _R]:
    """Mark a helper that kernels call: it is inlined, and messages name both lines.

    Arguments and results may be any mix of run-time values and compile-time objects. ``return``
    may stand anywhere. Recursion is possible where a compile-time condition ends it.

    Example::

        @td.function
        def load_tiles(stage, m, n, k):
            ...
    """
    return Function(function)


@dataclass(eq=False)
class NestedFunction:
    """A ``def`` or ``lambda`` met while tracing; it reads the variables of its frame, as in Python.

    Attributes:
        source: its own syntax tree.
        frame: the frame it was defined in.
        signature: its parameters, with defaults evaluated where it was defined.
    """

    __tiledsl_function__: ClassVar[bool] = True

    source: FunctionSource
    frame: Frame
    signature: inspect.Signature

    @property
    def __name__(self) -> str:
        return self.source.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Only for ``callable``: calls are traced."""
        raise TypeError(f"{self.source.name} can only be called in the kernel that defines it")

    @classmethod
    def define(
        cls, frame: Frame, node: FunctionNode, evaluate: Callable[[Frame, ast.expr], Any]
    ) -> NestedFunction:
        """The function as the definition makes it, with defaults evaluated now."""
        args = node.args
        kinds = inspect.Parameter
        parameters: list[inspect.Parameter] = []
        positional = [*args.posonlyargs, *args.args]
        missing = len(positional) - len(args.defaults)
        for number, arg in enumerate(positional):
            kind = (
                kinds.POSITIONAL_ONLY
                if number < len(args.posonlyargs)
                else kinds.POSITIONAL_OR_KEYWORD
            )
            default = (
                evaluate(frame, args.defaults[number - missing])
                if number >= missing
                else kinds.empty
            )
            parameters.append(inspect.Parameter(arg.arg, kind, default=default))
        if args.vararg is not None:
            parameters.append(inspect.Parameter(args.vararg.arg, kinds.VAR_POSITIONAL))
        for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            default = kinds.empty if value is None else evaluate(frame, value)
            parameters.append(inspect.Parameter(arg.arg, kinds.KEYWORD_ONLY, default=default))
        if args.kwarg is not None:
            parameters.append(inspect.Parameter(args.kwarg.arg, kinds.VAR_KEYWORD))
        signature = inspect.Signature(parameters)
        return cls(frame.source.nested(node), frame, signature)
