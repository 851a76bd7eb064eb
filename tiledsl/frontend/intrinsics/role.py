"""``with td.role(name, warps=..., replicas=...) as me`` and ``with me.turn()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import control, sync
from tiledsl.codegen.ir.ops.protocol import MbarrierArrive, MbarrierArriveExpectTx, MbarrierWait
from tiledsl.frontend.intrinsics.arguments import static_int, static_text
from tiledsl.frontend.objects import TracedObject, traced
from tiledsl.frontend.registry import implements
from tiledsl.language import role as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_WARPS = 32  # of a block
WARP = 32  # threads


@implements(language.role)
def role(cx: Context, name: object, warps: object, replicas: object = 1) -> RoleScope:
    text = static_text(cx, name, "td.role: name")
    if not text:
        raise cx.value_error("td.role: name: expected a name, got an empty string")
    each = static_int(cx, warps, "td.role: warps", least=1, most=MAX_WARPS)
    count = static_int(cx, replicas, "td.role: replicas", least=1)
    if each * count > MAX_WARPS:
        raise cx.value_error(
            f"td.role: {count} replicas of {each} warps are {each * count} warps: expected at most"
            f" {MAX_WARPS}, the warps of a block",
            hint=f"use at most {MAX_WARPS // each} replicas of {each} warps",
        )
    return RoleScope(text, each, count)


def names_of(name: str, replicas: int) -> list[str]:
    """What a role is called behind its replication."""
    return [name] if replicas == 1 else [f"{name}.{number}" for number in range(replicas)]


_ON_BARRIERS = (MbarrierArrive, MbarrierArriveExpectTx, MbarrierWait, sync.MbarrierTryWait)


def _expect_no_arrivals(cx: Context) -> None:
    """In front of the roles all warps run one program: none of them is who arrives or waits."""
    for op in cx.body.walk():
        if isinstance(op, control.Role):
            return
        if isinstance(op, _ON_BARRIERS):
            cx.loc = op.loc
            raise cx.syntax_error(
                "an mbarrier is used outside of the roles, in a kernel that has roles",
                hint="move this into one of the roles",
            )


@dataclass(frozen=True, eq=False)
class RoleScope(TracedObject):
    """A role to be; the ``with`` statement traces its body into the block."""

    kind: ClassVar[str] = "role"
    only_with: ClassVar[str | None] = "`with td.role(...):`"

    name: str
    warps: int
    replicas: int

    def region(self, cx: Context) -> control.Role:
        _expect_no_arrivals(cx)
        mine = names_of(self.name, self.replicas)
        for op in cx.body.ops:
            if not isinstance(op, control.Role):
                continue
            twice = [
                n for n in (self.name, *mine) if n in (op.name, *names_of(op.name, op.replicas))
            ]
            if twice:
                raise cx.value_error(
                    f"td.role: expected a name of its own for each role, got {twice[0]!r} twice",
                    hint="give one of the two another name",
                    notes=[("the first role of this name", op.loc)],
                )
        return control.Role(self.name, self.warps, Block(), self.replicas)

    def attribute(self, cx: Context, name: str) -> Any:
        known = [*Me.properties, "turn"]
        if name in known:
            raise cx.type_error(
                f"{name}: expected the role seen from inside",
                hint=f"write `with td.role(...) as me:` and me.{name}",
            )
        return super().attribute(cx, name)

    def inside(self, cx: Context, region: Op) -> Me:
        assert isinstance(region, control.Role)
        return Me(region)


@dataclass(frozen=True)
class Me(TracedObject):
    """What ``with td.role(...) as me`` binds: the role, seen from inside."""

    kind: ClassVar[str] = "role"
    properties: ClassVar[tuple[str, ...]] = ("count", "index", "name", "threads", "warps")

    role: control.Role

    @property
    def count(self) -> int:
        """Replicas of the role."""
        return self.role.replicas

    def index(self, cx: Context) -> Value | int:
        """The number of this replica."""
        return cx.emit(sync.Replica(), "replica") if self.count > 1 else 0

    def attribute(self, cx: Context, name: str) -> Any:
        match name:
            case "index":
                return self.index(cx)
            case "count":
                return self.count
            case "name":
                return self.role.name
            case "warps":
                return self.role.warps
            case "threads":
                return WARP * self.role.warps
        if name.startswith("is_"):
            raise cx.type_error(
                f"a role has no attribute {name!r}",
                hint="write a `with td.role(...)` for each kind of warps: only they run its body",
            )
        return super().attribute(cx, name)

    @traced
    def turn(self, cx: Context, name: object = "turn") -> Turn:
        text = static_text(cx, name, "turn: name")
        if not text:
            raise cx.value_error("turn: name: expected a name, got an empty string")
        return Turn(self, text, cx.loc)


@dataclass(frozen=True, eq=False)
class Turn(TracedObject):
    """What ``me.turn()`` gives: a section that the replicas run one behind the other."""

    kind: ClassVar[str] = "turn"
    only_with: ClassVar[str | None] = "`with me.turn():`"

    me: Me
    name: str
    loc: Any

    def enter(self, cx: Context) -> None:
        for frame in cx.frames:
            for outer in frame.withs:
                if isinstance(outer, Turn) and outer.name == self.name:
                    raise cx.syntax_error(
                        f"turn {self.name!r} inside of turn {self.name!r}: a replica would wait for"
                        " itself",
                        hint="leave the inner one out, or give it another name",
                        notes=[("the outer turn begins here", outer.loc)],
                    )
        if self.me.count > 1:
            cx.add(sync.TurnBegin(self.name))

    def exit(self, cx: Context) -> None:
        if self.me.count > 1:
            cx.add(sync.TurnEnd(self.name))
