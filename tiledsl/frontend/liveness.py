"""Which variables are still read later? Only those are merged after a branch and carried by a loop.

The analysis runs on the syntax tree, backwards, and errs on the side of "read": a name that a
nested function or lambda reads counts as live everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

Names = frozenset[str]
_NONE: Names = frozenset()


class Liveness:
    """Liveness of one function.

    ``after(node)`` are the names read after an ``if``, ``for`` or ``while`` statement;
    ``head(node)`` those read at the begin of a loop's iteration or after the loop.
    """

    def __init__(self, statements: list[ast.stmt]) -> None:
        self._after: dict[ast.stmt, Names] = {}
        self._head: dict[ast.stmt, Names] = {}
        self._captured = frozenset(
            name
            for statement in statements
            for node in ast.walk(statement)
            if isinstance(node, ast.FunctionDef | ast.Lambda)
            for name in _free(node)
        )
        self._block(statements, _NONE, _NONE, _NONE)

    def after(self, node: ast.stmt) -> Names:
        return self._after[node] | self._captured

    def head(self, node: ast.stmt) -> Names:
        return self._head[node] | self._captured

    def _block(self, statements: Iterable[ast.stmt], live: Names, brk: Names, cont: Names) -> Names:
        """Names live before ``statements``; ``brk`` and ``cont`` those at the loop's two exits."""
        for statement in reversed(list(statements)):
            live = self._statement(statement, live, brk, cont)
        return live

    def _statement(self, node: ast.stmt, live: Names, brk: Names, cont: Names) -> Names:
        match node:
            case ast.Assign(targets=targets, value=value):
                return _assign(targets, live) | _reads(value)
            case ast.AnnAssign(target=target, value=value):
                if value is None:
                    return live
                return _assign([target], live) | _reads(value)
            case ast.AugAssign(target=target, value=value):
                name = {target.id} if isinstance(target, ast.Name) else _reads(target)
                return live | name | _reads(value)
            case ast.Return():
                return _reads(node)
            case ast.Break():
                return brk
            case ast.Continue():
                return cont
            case ast.If(test=test, body=body, orelse=orelse):
                self._after[node] = live
                then = self._block(body, live, brk, cont)
                return _reads(test) | then | self._block(orelse, live, brk, cont)
            case ast.While() | ast.For():
                return self._loop(node, live, brk, cont)
            case ast.With(items=items, body=body):
                live = self._block(body, live, brk, cont)
                for item in reversed(items):
                    if item.optional_vars is not None:
                        live = _assign([item.optional_vars], live)
                    live |= _reads(item.context_expr)
                return live
            case ast.FunctionDef(name=name):
                return (live - {name}) | _reads(node)
        return live | _reads(node)

    def _loop(self, node: ast.While | ast.For, live: Names, brk: Names, cont: Names) -> Names:
        self._after[node] = live
        done = self._block(node.orelse, live, brk, cont)
        head = done
        while True:
            body = self._block(node.body, head, live, head)
            if isinstance(node, ast.For):
                new = head | _assign([node.target], body)
            else:
                new = head | body | _reads(node.test)
            if new == head:
                break
            head = new
        self._head[node] = head
        return head | _reads(node.iter) if isinstance(node, ast.For) else head


def _reads(node: ast.AST) -> Names:
    """Every name read in ``node``; what nested functions read counts too."""
    return frozenset(
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
    )


def _free(node: ast.FunctionDef | ast.Lambda) -> Names:
    """Names that a nested function takes from around it, so none of its own."""
    parameters = {inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)}
    own = assigned_in(node.body) if isinstance(node, ast.FunctionDef) else []
    outside = _reads(node.args) | frozenset(
        name for decorator in getattr(node, "decorator_list", []) for name in _reads(decorator)
    )
    body = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    inside = frozenset(name for statement in body for name in _reads(statement))
    return outside | (inside - parameters - frozenset(own))


def _assign(targets: Iterable[ast.expr], live: Names) -> Names:
    """Live before an assignment to ``targets``, less what its value reads."""
    for target in targets:
        killed = {
            inner.id
            for inner in ast.walk(target)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        }
        live = (live - killed) | _reads(target)
    return live


def assigned_in(statements: Iterable[ast.stmt]) -> list[str]:
    """Names that ``statements`` bind, in order of first appearance; nested functions left out."""
    found: dict[str, None] = {}
    for statement in statements:
        _collect(statement, found)
    return list(found)


def _collect(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.FunctionDef):
        found[node.name] = None
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                found[inner.target.id] = None
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        found[node.id] = None
    for child in ast.iter_child_nodes(node):
        _collect(child, found)
