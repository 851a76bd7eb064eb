"""From a Python function to its syntax tree, and from a node to the user's line and columns."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from tiledsl.errors import Loc, SyntaxNotSupported
from tiledsl.frontend.liveness import Liveness

FunctionNode = ast.FunctionDef | ast.Lambda


class FunctionSource:
    """The syntax tree of a function, with what is derived from it once.

    Attributes:
        name: as messages call the function.
        node: a ``def`` or ``lambda``; its line numbers are those of the file.
        file: the file's name, which ``linecache`` knows.
    """

    def __init__(self, name: str, node: FunctionNode, file: str, lines: dict[int, str]) -> None:
        self.name = name
        self.node = node
        self.file = file
        self._lines = lines

    def nested(self, node: FunctionNode) -> FunctionSource:
        """The source of a function defined inside of this one."""
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        return FunctionSource(name, node, self.file, self._lines)

    def loc(self, node: ast.AST, call_site: Loc | None = None) -> Loc:
        """Where a node of this function stands."""
        line = getattr(node, "lineno", self.node.lineno)
        end_line = getattr(node, "end_lineno", None) or line
        return Loc(
            self.file,
            line,
            self._column(line, getattr(node, "col_offset", 0)),
            end_line,
            self._column(end_line, getattr(node, "end_col_offset", None) or 0),
            self.name,
            call_site,
        )

    def _column(self, line: int, offset: int) -> int:
        """Characters for an offset that ``ast`` counts in UTF-8 bytes."""
        text = self._lines.get(line, "")
        if text.isascii():
            return offset
        return len(text.encode()[:offset].decode(errors="ignore"))

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The body; an expression of a lambda as a ``return``. A docstring is left out."""
        if isinstance(self.node, ast.Lambda):
            body = self.node.body
            made = ast.Return(body)
            ast.copy_location(made, body)
            return [made]
        statements = self.node.body
        return statements[1:] if ast.get_docstring(self.node, clean=False) else statements

    @cached_property
    def returns_early(self) -> bool:
        """Whether a ``return`` stands inside of another statement."""
        return any(
            isinstance(inner, ast.Return)
            for statement in self.statements
            if not isinstance(statement, ast.Return)
            for inner in _walk_function(statement)
        )

    @cached_property
    def liveness(self) -> Liveness:
        return Liveness(self.statements)

    @cached_property
    def locals(self) -> dict[str, ast.AST]:
        """Names that the function binds, each with the first node that does."""
        args = self.node.args
        found: dict[str, ast.AST] = {}
        for arg in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if arg is not None:
                found[arg.arg] = arg
        for statement in self.statements:
            _collect_bindings(statement, found)
        return found


def _walk_function(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is in it, without the functions nested in it."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for child in ast.iter_child_nodes(node):
            yield from _walk_function(child)


def _collect_bindings(node: ast.AST, found: dict[str, ast.AST]) -> None:
    """Names bound in ``node``, not in functions nested in it.

    A walrus in a comprehension binds in the function.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        found.setdefault(node.name, node)
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                found.setdefault(inner.target.id, inner.target)
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        found.setdefault(node.id, node)
    for child in ast.iter_child_nodes(node):
        _collect_bindings(child, found)


# Code objects of two files may be equal: they do not compare their file names.
_CACHE: dict[tuple[str, types.CodeType], FunctionSource] = {}


def source_of(function: types.FunctionType) -> FunctionSource:
    """The source of a Python function.

    Raises:
        SyntaxNotSupported: it is not available, or is no ``def`` or ``lambda``.
    """
    code = function.__code__
    key = (code.co_filename, code)
    found = _CACHE.get(key)
    if found is None:
        found = _CACHE[key] = _find(function)
    return found


def _find(function: types.FunctionType) -> FunctionSource:
    code = function.__code__
    name = code.co_name
    try:
        lines, start = inspect.findsource(code)
    except (OSError, TypeError):
        raise SyntaxNotSupported(
            f"the source of {name} is not available, so it cannot be compiled",
            Loc(code.co_filename, code.co_firstlineno, function=name),
            hint="define it in a file or in a notebook cell without a magic such as %%time, not"
            " through exec or at the prompt",
        ) from None
    if name == "<lambda>":
        return _find_lambda(code, lines)
    block = inspect.getblock(lines[start:])
    # An indented function is parsed in an `if` so that columns stay those of the file.
    indented = block[0][:1].isspace()
    text = ("if 1:\n" if indented else "") + "".join(block)
    node = _parse(text, code, name)
    ast.increment_lineno(node, start - (1 if indented else 0))
    for found in ast.walk(node):
        if isinstance(found, ast.AsyncFunctionDef) and found.name == name:
            raise SyntaxNotSupported(
                f"{name} is an async function",
                Loc(code.co_filename, found.lineno, function=name),
                hint="write def instead of async def",
            )
        if isinstance(found, ast.FunctionDef) and found.name == name:
            numbered = {start + 1 + i: line.rstrip("\n") for i, line in enumerate(block)}
            return FunctionSource(name, found, code.co_filename, numbered)
    raise SyntaxNotSupported(
        f"the source of {name} has changed since it was loaded",
        Loc(code.co_filename, code.co_firstlineno, function=name),
        hint="restart Python, or run the notebook cell again",
    )


def _parse(text: str, code: types.CodeType, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        raise SyntaxNotSupported(
            f"the source of {name} cannot be parsed: it has changed since it was loaded",
            Loc(code.co_filename, code.co_firstlineno, function=name),
        ) from None


def _find_lambda(code: types.CodeType, lines: list[str]) -> FunctionSource:
    """A lambda is found in the whole file, by line and then by the columns of its code."""
    tree = _parse("".join(lines), code, "<lambda>")
    candidates = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    spans = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    # The innermost lambda that contains all of the code's positions.
    fitting = [
        node
        for node in candidates
        if spans and all(_start(node.body) <= span < _end(node.body) for span in spans)
    ]
    if len(candidates) > 1:
        candidates = sorted(fitting, key=_start)[-1:]
    if not candidates:
        raise SyntaxNotSupported(
            "the source of a lambda is not available, so it cannot be compiled",
            Loc(code.co_filename, code.co_firstlineno),
            hint="write it as a def",
        )
    numbered = {i + 1: line.rstrip("\n") for i, line in enumerate(lines)}
    return FunctionSource("<lambda>", candidates[0], code.co_filename, numbered)


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def function_loc(function: Callable[..., Any]) -> Loc:
    """The line of a function, for messages about the function itself."""
    code = getattr(function, "__code__", None)
    if code is None:
        return Loc("<unknown>", 0)
    return Loc(code.co_filename, code.co_firstlineno, function=function.__name__)
