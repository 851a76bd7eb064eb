"""Functions defined inside of a kernel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.frontend.source import FunctionNode, FunctionSource

if TYPE_CHECKING:
    from tiledsl.frontend.scope import Frame


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
