"""Roles on warps, registers and named barriers.

Roles that one thread can run, and those of any number of warps, are packed into warpgroups first;
each role with register tiles then starts at a whole warpgroup. Where both kinds exist and the entry
share of the register file is short, the first kind gives registers up (``setmaxnreg.dec``) and the
others take them. The sum over warpgroups never exceeds what the block owned at entry: the hardware
would hang (hazard H2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiledsl.codegen.ir.core import Block, Op, Value, users
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.layouts import WgmmaFragment
from tiledsl.codegen.ir.ops import control, protocol, sync, tile
from tiledsl.codegen.ir.plan import WARP, Limits, NamedBarrier, Plan, RolePlan
from tiledsl.codegen.ir.types import Tile
from tiledsl.errors import InvalidValue, Loc, ResourceLimit

# Registers of a warpgroup whose roles are run by single threads: the second where the accumulators
# of the others are large.
THREAD_BUDGETS = (40, 24)
# The same where a role copies with all of its threads: addresses and predicates of many copies.
COPY_BUDGETS = (112, 96, 72, 56, 40)
# Below this many entry registers a wgmma role is short of them, so that moving pays.
ROOMY_ENTRY = 232


def plan_roles(kernel: Kernel, limits: Limits) -> None:
    """Set warps, registers and named barriers of each role, and the threads of a block."""
    plan = kernel.plan
    assert plan is not None
    _place(plan, limits, kernel.loc)
    _registers(kernel, plan, limits)
    _named_barriers(kernel, plan, limits)
    entry = entry_registers(plan.threads, limits)
    for name, body in roles_of(kernel):
        role = plan.role(name)
        if role.mode == "warpgroup":
            _check_accumulators(role, role.registers or entry, body)
            _check_columns(plan.threads, entry, body)


def _place(plan: Plan, limits: Limits, loc: Loc) -> None:
    small = [role for role in plan.roles if role.mode != "warpgroup"]
    large = [role for role in plan.roles if role.mode == "warpgroup"]
    warp = 0
    for role in small:
        role.first_warp = warp
        warp += role.warps
    if large:
        warp = -(-warp // 4) * 4  # idle warps fill the last warpgroup of the small roles
    for role in large:
        role.first_warp = warp
        warp += role.warps
    plan.threads = 32 * warp
    if plan.threads > limits.threads:
        each = ", ".join(f"{role.name}: {role.warps}" for role in plan.roles)
        raise ResourceLimit(
            f"the roles need {warp} warps ({each}; roles with register tiles start at whole"
            f" warpgroups):"
            f" expected at most {limits.threads // 32}",
            loc,
            hint="give the roles fewer warps",
        )


def entry_registers(threads: int, limits: Limits) -> int:
    """Registers of a thread at entry of a block with ``threads`` threads, alone on its SM."""
    return min(limits.registers // threads // 8 * 8, limits.thread_registers)


def _registers(kernel: Kernel, plan: Plan, limits: Limits) -> None:
    large = [role for role in plan.roles if role.mode == "warpgroup"]
    small = [role for role in plan.roles if role.mode != "warpgroup"]
    entry = entry_registers(plan.threads, limits)
    prints = any(isinstance(op, tile.Print) for op in kernel.body.walk())
    # ptxas ignores setmaxnreg in a kernel that calls a function, as printing does.
    if not large or not small or entry >= ROOMY_ENTRY or prints:
        return
    groups = plan.threads // 128
    large_groups = sum(role.parts for role in large)
    small_groups = groups - large_groups
    names = {role.name for role in large}
    need = max(_need(body)[0] for name, body in roles_of(kernel) if name in names)
    copies = any(role.mode == "warps" for role in small)
    for kept in COPY_BUDGETS if copies else THREAD_BUDGETS:
        left = entry * groups - kept * small_groups
        budget = min(left // large_groups, limits.thread_registers) // 8 * 8
        if budget >= need + COMFORT:
            break  # else the small roles give up what they can
    if budget <= entry:
        return
    plan.entry_registers = entry
    for role in large:
        role.registers = budget
    for role in small:
        role.registers = kept


def _named_barriers(kernel: Kernel, plan: Plan, limits: Limits) -> None:
    """Give ids, from 1 on (0 is the whole block's), to roles, parts and the user's barriers."""
    following = 1
    takers: list[str] = []
    for name, body in roles_of(kernel):
        role = plan.role(name)
        if role.parts * role.part_threads <= WARP:
            continue  # a warp meets by itself
        parts = any(isinstance(op, protocol.PartSync) for op in body.walk())
        meets = any(_meets(op) for op in body.walk())
        if parts or (meets and role.parts == 1):
            role.part_barrier, following = following, following + role.parts
            each = f"{role.parts} parts" if role.parts > 1 else "all of its threads"
            takers.append(f"role {name!r}: {role.parts}, for {each}")
        if meets and role.parts == 1:
            role.role_barrier = role.part_barrier  # the same threads
        elif meets:
            role.role_barrier, following = following, following + 1
            takers.append(f"role {name!r}: 1, for all of its threads")
    for create, threads in _between_roles(kernel, plan):
        plan.named[create.name], following = NamedBarrier(following, threads), following + 1
        takers.append(f"td.named_barrier {create.name!r}: 1")
    if following > limits.named_barriers:
        raise ResourceLimit(
            f"this kernel needs {following - 1} named barriers: a block has"
            f" {limits.named_barriers - 1}",
            kernel.loc,
            notes=tuple((taker, None) for taker in takers),
            hint="use fewer warpgroups in the roles, or mbarriers: td.mbarrier()",
        )


def _meets(op: Op) -> bool:
    """Whether all threads of a role meet for ``op``."""
    if isinstance(op, sync.MbarrierTryWait):
        return op.uniform
    return isinstance(op, protocol.RoleSync)


def _between_roles(kernel: Kernel, plan: Plan) -> list[tuple[sync.NamedCreate, int]]:
    """The named barriers that are used, with the threads of the roles that use them."""
    roles = any(isinstance(op, control.Role) for op in kernel.body.ops)
    for op in outside_roles(kernel) if roles else ():
        if isinstance(op, sync.NamedSync | sync.NamedArrive):
            raise InvalidValue(
                "a named barrier is used outside of the roles: expected it inside of the roles"
                " that meet there",
                op.loc,
                hint="move this into a role",
            )
    users: dict[Value, set[str]] = {}
    for name, body in roles_of(kernel):
        for op in body.walk():
            if isinstance(op, sync.NamedSync | sync.NamedArrive):
                users.setdefault(op.barrier, set()).add(name)
    return [
        (op, sum(_threads(plan.role(name)) for name in users[op.result]))
        for op in kernel.body.walk()
        if isinstance(op, sync.NamedCreate) and op.result in users
    ]


def _threads(role: RolePlan) -> int:
    """Threads of a role as a named barrier counts them: whole warps, of one thread its warp."""
    return WARP if role.mode == "thread" else role.warps * WARP


# ------------------------------------------------------------------ accumulators in registers

# Addresses, descriptors, loop counters and the epilogue's temporaries beside the accumulators.
OVERHEAD = 28
COMFORT = 44  # with so many beside the accumulators nothing spills
INSTRUCTION_OVERHEAD = 26  # what ptxas keeps beside the accumulators of one wgmma


def _need(body: Block) -> tuple[int, list[Value], Loc]:
    """Registers that the accumulators of a role take where they are most, and which these are."""
    values, at = _peak(body, [], users(body))
    return sum(_registers_of(value) for value in values), values, at


def _check_accumulators(role: RolePlan, budget: int, body: Block) -> None:
    """Refuse accumulators that cannot stay in registers: ptxas would spill or give up (H3)."""
    need, values, at = _need(body)
    if need + OVERHEAD <= budget:
        return
    lines = tuple(
        (f"a {value.type.dtype} tile of shape {value.type.shape}: {_registers_of(value)} registers",
         value.loc)
        for value in values
        if isinstance(value.type, Tile)
    )  # fmt: skip
    raise ResourceLimit(
        f"the accumulators of role {role.name!r} need {need} registers a thread, and {OVERHEAD}"
        f" more are needed beside them: its {role.warps} warps have {budget} each",
        at,
        notes=lines,
        hint="use a smaller tile, or more warps for this role",
    )


def _check_columns(threads: int, entry: int, body: Block) -> None:
    """Refuse a wgmma whose own registers exceed those that a thread has at entry.

    ``setmaxnreg`` does not help: ptxas wants the operands of one instruction, and some registers
    beside them, within the entry share, and gives up otherwise (C7602).
    """
    for op in body.walk():
        if not isinstance(op, protocol.Wgmma):
            continue
        assert isinstance(op.acc.type, Tile)
        columns, bits = op.acc.type.shape[1], op.acc.type.dtype.bits
        need = columns * bits // 64 + INSTRUCTION_OVERHEAD  # 64 rows on 128 threads
        if need <= entry:
            continue
        most = (entry - INSTRUCTION_OVERHEAD) * 64 // bits // 8 * 8
        raise ResourceLimit(
            f"an mma with {columns} columns needs {need} registers a thread when the kernel starts:"
            f" the {threads} threads of this block have {entry} each, before roles give registers"
            " to others",
            op.loc,
            hint=f"use at most {most} columns, or fewer warps in the block",
        )


def _registers_of(value: Value) -> int:
    if not isinstance(value.type, Tile) or not isinstance(value.type.layout, WgmmaFragment):
        return 0
    return max(1, value.type.layout.values * value.type.dtype.itemsize // 4)


def _peak(
    block: Block, outer: list[Value], uses: Mapping[Value, Sequence[Op]]
) -> tuple[list[Value], Loc]:
    """The accumulators live at once where they are most: what loops carry, and what mma makes.

    An mma's result takes over the registers of its accumulator, so a chain counts once; and so
    does a loop inside of a loop which goes on with what the outer one carries.
    """
    best, where = list(outer), Loc("<unknown>", 0)

    def consider(values: list[Value], loc: Loc) -> None:
        nonlocal best, where
        if sum(map(_registers_of, values)) > sum(map(_registers_of, best)):
            best, where = values, loc

    for op in block.ops:
        if isinstance(op, control.For | control.Loop):
            carried = [arg for arg in op.body.args if isinstance(arg.type, Tile)]
            taken_over = [_continues(init, outer, uses) for init in op.inits]
            live = [value for value in outer if value not in taken_over] + carried
            consider(live, op.loc)
            consider(*_peak(op.body, live, uses))
        elif isinstance(op, protocol.Wgmma):
            root = _continues(op.acc, outer)
            consider([*(value for value in outer if value is not root), op.result], op.loc)
        elif op.blocks:
            for nested in op.blocks:
                consider(*_peak(nested, outer, uses))
    return best, where


def _continues(
    acc: Value, outer: list[Value], uses: Mapping[Value, Sequence[Op]] | None = None
) -> Value | None:
    """The carried accumulator whose registers ``acc`` lives in, through a chain of mma.

    ``uses``: with them, only where nothing else reads a value of the chain, and needs its own copy.
    """
    value: Value | None = acc
    while value is not None:
        if uses is not None and len(uses[value]) != 1:
            return None
        if value in outer:
            return value
        owner = value.owner
        if isinstance(owner, protocol.Wgmma):
            value = owner.acc
        elif isinstance(owner, protocol.WgmmaWait):
            value = owner.values[owner.results.index(value)]
        else:
            return None
    return None
