"""Which warps run which role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir.core import Block
from tiledsl.codegen.ir.ops import sync
from tiledsl.codegen.ir.plan import WARP, Plan, RolePlan
from tiledsl.codegen.nvptx.context import Lowering, Where
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.errors import InternalError

WARPGROUP_WARPS = 4


@dataclass(slots=True)
class Segment:
    """Neighbouring warpgroups, ``first`` ... ``end`` - 1, and the roles that begin in them.

    No role that runs on all of its warps reaches out of its segment.
    """

    first: int
    end: int
    roles: list[RolePlan]
    registers: int | None


def segments(plan: Plan) -> list[Segment]:
    """The warpgroups of a block, cut where no role runs on both sides of the cut.

    A role of whole warpgroups is alone. Other roles share warpgroups, and those of one thread may
    own idle warps in the next; all warps of a warpgroup change its register count together, idle
    ones too.
    """
    found = []
    groups = -(-plan.threads // (WARPGROUP_WARPS * WARP))
    first = 0
    while first < groups:
        end, reach = first, first + 1
        while reach > end:
            end = reach
            here = [role for role in plan.roles if _touches(role, first, end)]
            reach = max([end, *(_last_group(role) for role in here if role.mode != "thread")])
        start = first * WARPGROUP_WARPS
        owners = [role for role in here if role.mode == "warpgroup"]
        if owners and (len(here) > 1 or owners[0].first_warp != start):
            raise InternalError(f"roles share warpgroup {first} with {owners[0].name!r}")
        budgets = {role.registers for role in here}
        if len(budgets) > 1:
            raise InternalError(f"roles of warpgroup {first} disagree on registers: {budgets}")
        starting = [role for role in here if role.first_warp >= start]
        found.append(Segment(first, end, starting, next(iter(budgets), None)))
        first = end
    return found


def _last_group(role: RolePlan) -> int:
    """The warpgroup behind the role's last."""
    return -(-(role.first_warp + role.warps) // WARPGROUP_WARPS)


def _touches(role: RolePlan, first: int, end: int) -> bool:
    return role.first_warp < end * WARPGROUP_WARPS and first < _last_group(role)


def warp_uniform(low: Lowering, value: Any) -> Any:
    """Lane 0's value (i32): the same number, but known to be the same in the whole warp."""
    arguments = (I32(-1), value, I32(0), I32(31))
    return low.intrinsic("llvm.nvvm.shfl.sync.idx.i32", I32, arguments)


class Dispatch:
    """Emits the branches that lead each warp to its role, and the roles.

    Args:
        bodies: what each role runs, by name.
        main: whether the kernel has no roles, so that its whole body is one.
    """

    def __init__(self, low: Lowering, bodies: Mapping[str, Block], *, main: bool) -> None:
        self.low = low
        self.plan = low.plan
        self.bodies = bodies
        self.main = main
        self.warp: Any = None  # i32 index of this warp in the block, where it is computed

    def emit(self) -> None:
        """A chain of branches on the warpgroup's index, which ptxas must know to be uniform."""
        low = self.low
        if self.main and self._stands_for_its_warp(self.plan.roles[0]):
            self._one_thread(self.plan.roles[0])  # all other threads of the block end
            self._leave()
            return
        found = segments(self.plan)
        low.group = I32(0)
        if len(found) > 1 or found[0].end > 1:
            low.group = warp_uniform(low, low.builder.lshr(low.thread, I32(7)))
        for segment in found[:-1]:
            mine, others = low.label(_label(segment.roles)), low.label("dispatch")
            is_mine = low.builder.icmp_unsigned("<", low.group, I32(segment.end))
            low.builder.cbranch(is_mine, mine, others)
            low.builder.position_at_end(mine)
            self._segment(segment)
            low.builder.position_at_end(others)
        self._segment(found[-1])

    def _segment(self, segment: Segment) -> None:
        self._set_registers(segment.registers)
        self.warp = None
        if any(self._asks_for_the_warp(role, segment) for role in segment.roles):
            # Here, where no lane has left for a role of one thread: lane 0 is asked.
            self.warp = warp_uniform(self.low, self.low.builder.lshr(self.low.thread, I32(5)))
        for role in segment.roles:
            if role.mode == "warpgroup" or self._is_alone(role, segment):
                self._run(role, self._where(role))
                return
            if role.mode == "warps":
                self._branch(self._among(role), role, lambda r: self._run(r, self._where(r)))
            elif self._stands_for_its_warp(role):
                self._branch(self._among(role), role, self._one_thread)
            else:
                self._one_thread(role)
        self._leave()

    def _is_alone(self, role: RolePlan, segment: Segment) -> bool:
        """Do all threads of all warps of a segment run this role?"""
        warps = min(segment.end * WARPGROUP_WARPS, self.plan.threads // WARP)
        whole = role.warps == warps - role.first_warp
        return role.mode == "warps" and whole and role.first_warp == segment.first * WARPGROUP_WARPS

    def _asks_for_the_warp(self, role: RolePlan, segment: Segment) -> bool:
        """Does the index of a warp say whether it runs the role?"""
        if role.mode == "warps":
            return not self._is_alone(role, segment)
        return role.mode == "thread" and self._stands_for_its_warp(role)

    def _branch(self, mine: Any, role: RolePlan, run: Callable[[RolePlan], None]) -> None:
        """``run`` for the warps where ``mine`` is true; the others go on behind it."""
        low = self.low
        inside, others = low.label(f"warps.{role.name}"), low.label("others")
        low.builder.cbranch(mine, inside, others)
        low.builder.position_at_end(inside)
        run(role)
        if not low.ended:
            self._leave()
        low.builder.position_at_end(others)

    def _among(self, role: RolePlan) -> Any:
        """Whether this warp is one that runs the role; the same in the whole warp."""
        builder = self.low.builder
        assert self.warp is not None
        warps = 1 if role.mode == "thread" else role.warps
        number = builder.sub(self.warp, I32(role.first_warp)) if role.first_warp else self.warp
        return builder.icmp_unsigned("<", number, I32(warps))

    def _one_thread(self, role: RolePlan) -> None:
        """The role for its elected thread; the others go on behind it, or end at once."""
        low = self.low
        mine, others = low.label(f"role.{role.name}"), low.label("others")
        low.builder.cbranch(self._leads(role), mine, others)
        low.builder.position_at_end(mine)
        self._run(role, Where(role, True, I32(0), None, None))
        low.builder.position_at_end(others)
        if self._stands_for_its_warp(role):
            low.asm("exit;")

    def _stands_for_its_warp(self, role: RolePlan) -> bool:
        """Whether one thread runs the role and meets others in it.

        A barrier waits for every thread of a warp that has not exited: the others must have.
        """
        kinds = (sync.NamedSync, sync.NamedArrive, sync.ClusterSync)
        body = self.bodies[role.name]
        return role.mode == "thread" and any(isinstance(op, kinds) for op in body.walk())

    def _leads(self, role: RolePlan) -> Any:
        first = I32(role.first_warp * WARP)
        return self.low.builder.icmp_unsigned("==", self.low.thread, first)

    def _set_registers(self, registers: int | None) -> None:
        entry = self.plan.entry_registers
        if registers is None or entry is None or registers == entry:
            return
        if "setmaxnreg" not in self.low.target.features:
            return
        way = "inc" if registers > entry else "dec"
        self.low.asm(f"setmaxnreg.{way}.sync.aligned.u32 {registers};", convergent=True)

    def _where(self, role: RolePlan) -> Where:
        """The place of this thread in a role that all of its threads run."""
        low, builder = self.low, self.low.builder
        if role.mode == "warps":
            leads = self._leads(role)
            return Where(role, False, I32(0), leads, leads)
        part: Any = I32(0)
        if role.parts > 1:
            first = role.first_warp // WARPGROUP_WARPS
            part = builder.sub(low.group, I32(first)) if first else low.group
        thread = builder.and_(low.thread, I32(127))
        return Where(
            role=role,
            single=False,
            part=part,
            leads_part=builder.icmp_unsigned("==", thread, I32(0)),
            leads_role=self._leads(role),
        )

    def _run(self, role: RolePlan, where: Where) -> None:
        self.low.where = where
        self.low.block(self.bodies[role.name])
        if not self.low.ended:
            self._leave()

    def _leave(self) -> None:
        assert self.low.exit is not None
        self.low.exit.jump()


def _label(roles: Sequence[RolePlan]) -> str:
    return "warpgroup." + ".".join(role.name for role in roles) if roles else "idle"
