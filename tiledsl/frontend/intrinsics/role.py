"""``with td.role(name, warps=...)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiledsl.codegen.ir.core import Block
from tiledsl.codegen.ir.ops import control
from tiledsl.frontend.intrinsics.arguments import static_int, static_text
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import implements
from tiledsl.language import role as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_WARPS = 32  # of a block


@implements(language.role)
def role(cx: Context, name: object, warps: object) -> RoleScope:
    text = static_text(cx, name, "td.role: name")
    if not text:
        raise cx.value_error("td.role: name: expected a name, got an empty string")
    return RoleScope(text, static_int(cx, warps, "td.role: warps", least=1, most=MAX_WARPS))


@dataclass(frozen=True, eq=False)
class RoleScope(TracedObject):
    """A role to be; the ``with`` statement traces its body into the block."""

    kind: ClassVar[str] = "role"

    name: str
    warps: int

    def region(self, cx: Context) -> control.Role:
        for op in cx.body.ops:
            if isinstance(op, control.Role) and op.name == self.name:
                raise cx.value_error(
                    f"td.role: expected a name of its own for each role, got {self.name!r} twice",
                    hint="give one of the two another name",
                    notes=[("the first role of this name", op.loc)],
                )
        return control.Role(self.name, self.warps, Block())
