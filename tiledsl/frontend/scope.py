"""Variables: one frame for each function that is being traced, and how two states are merged."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import difflib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Captured
from tiledsl.errors import Loc, NameNotFound, TileError
from tiledsl.frontend.aggregates import fields_of
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.source import FunctionSource

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@dataclass(frozen=True, slots=True, eq=False)
class Poison:
    """Stands for a variable that has no usable value here; reading it raises the error."""

    kind: type[TileError]
    message: str
    notes: tuple[tuple[str, Loc | None], ...] = ()
    hint: str | None = None


@dataclass(eq=False)
class Exit:
    """A ``break``, ``continue`` or ``return`` that ended a block, with the state it leaves."""

    op: Op
    state: State
    result: Any = None


@dataclass(eq=False)
class LoopState:
    """A loop that is being traced; ``withs`` objects of the frame were entered before it."""

    withs: int
    unrolled: bool
    live: frozenset[str] = frozenset()  # what a branch inside that ends in break must keep
    breaks: list[Exit] = field(default_factory=list)
    continues: list[Exit] = field(default_factory=list)


# What people change to get another kernel; functions, classes and modules are not watched.


def _changes_in_place(value: Any) -> bool:
    """Whether a value may change and a copy, compared with it, shows that."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        params: Any = value.__dataclass_params__  # type: ignore[attr-defined]
        return bool(params.eq and not params.frozen)
    return isinstance(value, list | dict | set)


class Frame:
    """One function (or comprehension) that is being traced.

    Attributes:
        kind: ``"kernel"``, ``"function"`` or ``"comprehension"``.
        parent: the frame whose variables are visible too: of the enclosing function.
        function: the Python function, for its globals and closure; None for nested ones.
        call_site: where it was called from.
    """

    def __init__(
        self,
        cx: Context,
        source: FunctionSource,
        *,
        kind: str,
        parent: Frame | None = None,
        function: types.FunctionType | None = None,
        call_site: Loc | None = None,
    ) -> None:
        self.cx = cx
        self.source = source
        self.kind = kind
        self.parent = parent
        self.function = function
        self.call_site = call_site
        self.vars: dict[str, Any] = {}
        self.where: dict[str, Loc] = {}  # where each variable was last assigned
        self.withs: list[TracedObject] = []
        self.loops: list[LoopState] = []
        self.returns: list[Exit] = []
        self.branches = len(cx.branches)
        self.jump: Loc | None = None  # the last break, continue or return that was traced

    @property
    def owner(self) -> Frame:
        """The function's own frame, for a comprehension inside of it."""
        frame = self
        while frame.kind == "comprehension" and frame.parent is not None:
            frame = frame.parent
        return frame

    def family(self) -> Iterator[Frame]:
        """The frames whose variables code in this frame can change."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            if frame.kind != "comprehension":
                return
            frame = frame.parent

    # -------------------------------------------------------------------------- variables

    def assign(self, name: str, value: Any) -> None:
        if isinstance(value, TracedObject):
            value.assigned(name)
        elif isinstance(value, Value):
            self.cx.assigned(value, name)
        self.vars[name] = value
        self.where[name] = self.cx.loc

    def lookup(self, name: str) -> Any:
        """The value of a name: local, enclosing, closure, global, builtin."""
        frame: Frame | None = self
        last = self
        while frame is not None:
            if name in frame.vars:
                return self.usable(frame.vars[name])
            if frame.kind != "comprehension" and name in frame.source.locals:
                raise self._unassigned(frame, name)
            last, frame = frame, frame.parent
        function = last.function
        assert function is not None
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            try:
                return self.capture(name, cell, cell.cell_contents, lambda: cell.cell_contents)
            except ValueError:
                raise self.cx.name_error(
                    f"{name!r} of the enclosing function has no value yet"
                ) from None
        if name in function.__globals__:
            space = function.__globals__
            return self.capture(name, space, space[name], lambda: space.get(name))
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise self._undefined(name, function)

    def capture(self, name: str, space: Any, value: Any, read: Callable[[], Any]) -> Any:
        """Note a value from outside: when the name gets another, the kernel is compiled anew."""
        if not isinstance(value, types.ModuleType):
            kept = copy.copy(value) if _changes_in_place(value) else value
            self.cx.captured[id(space), name] = Captured(id(space), name, kept, read)
        return value

    def usable(self, value: Any) -> Any:
        """``value``, unless it is poison."""
        if isinstance(value, Poison):
            raise self.cx.error(value.kind, value.message, hint=value.hint, notes=value.notes)
        return value

    def _unassigned(self, frame: Frame, name: str) -> NameNotFound:
        node = frame.source.locals[name]
        return self.cx.name_error(
            f"{name!r} is read before it is assigned",
            notes=[("it is assigned here", frame.source.loc(node, frame.call_site))],
        )

    def _undefined(self, name: str, function: types.FunctionType) -> NameNotFound:
        known = set(function.__globals__) | set(dir(builtins)) | set(function.__code__.co_freevars)
        frame: Frame | None = self
        while frame is not None:
            known |= set(frame.vars)
            frame = frame.parent
        close = difflib.get_close_matches(name, sorted(known), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else None
        return self.cx.name_error(f"name {name!r} is not defined", hint=hint)

    @contextmanager
    def at(self, loc: Loc) -> Iterator[None]:
        saved = self.cx.loc
        self.cx.loc = loc
        try:
            yield
        finally:
            self.cx.loc = saved


# ------------------------------------------------------------------------------------ state


def contents_of(x: Any) -> Any:
    """What a mutable object holds: a copy that can be compared and put back."""
    if isinstance(x, list):
        return list(x)
    return dict(x) if isinstance(x, dict) else fields_of(x)


def set_contents(x: Any, contents: Any) -> None:
    if isinstance(x, list):
        x[:] = contents
    elif isinstance(x, dict):
        x.clear()
        x.update(contents)
    else:
        for name in set(getattr(x, "__dict__", {})) - set(contents):
            object.__delattr__(x, name)
        for name, value in contents.items():
            object.__setattr__(x, name, value)


def same_contents(a: Any, b: Any) -> bool:
    """Whether two copies hold the very same objects under the same keys."""
    if isinstance(a, list):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    return list(a) == list(b) and all(a[k] is b[k] for k in a)


@dataclass(eq=False)
class State:
    """A copy of everything that code in a frame can change."""

    variables: list[dict[str, Any]]
    where: list[dict[str, Loc]]
    heap: list[Any]

    @staticmethod
    def capture(frame: Frame) -> State:
        return State(
            [dict(f.vars) for f in frame.family()],
            [dict(f.where) for f in frame.family()],
            [contents_of(x) for x in frame.cx.heap],
        )

    @contextmanager
    def in_force(self, frame: Frame, value: Any) -> Iterator[None]:
        """While objects hold what they held in this state, if ``value`` may be one or have one."""
        if not isinstance(value, tuple | list | dict) and not frame.cx.is_made_here(value):
            yield
            return
        saved = State.capture(frame)
        self.restore(frame)
        try:
            yield
        finally:
            saved.restore(frame)

    def restore(self, frame: Frame) -> None:
        """Put the state back; objects made since keep what they hold."""
        for f, variables, where in zip(frame.family(), self.variables, self.where, strict=True):
            f.vars = dict(variables)
            f.where = dict(where)
        for x, contents in zip(frame.cx.heap, self.heap, strict=False):
            if not same_contents(contents_of(x), contents):
                set_contents(x, contents)
