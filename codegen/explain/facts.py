"""What is derived of a kernel, gathered while it is brought down.

What the user said, and what the passes found out about stages, is read where stages still stand in
the program; warps, registers and shared memory from the plan when all is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from tiledsl.codegen.checks.stages import BULK_LOADS, Guards, ring_and_side, tile_bytes, user_call
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, copy, memory, sync, tile
from tiledsl.codegen.ir.plan import Arrival, Limits, Plan
from tiledsl.codegen.ir.types import RingType, SharedTile, shape_text
from tiledsl.codegen.passes.derive_bytes import loads_by_stage
from tiledsl.errors import Loc

_T = TypeVar("_T")
STAGES_STAND = "derive_counts"  # the last pass behind which acquires and releases can be read


@dataclass(frozen=True, slots=True)
class Load:
    """A copy that fills part of a stage; ``nbytes`` of all its runs for one stage."""

    what: str  # such as "td.tma_load of a, multicast along axis 0"
    nbytes: int
    loc: Loc


@dataclass(slots=True)
class Filling:
    """What fills the stages that one acquire of a producer takes."""

    role: str
    nbytes: int
    loads: list[Load]
    loc: Loc


@dataclass(slots=True)
class Ring:
    """A pipeline: who fills and takes its stages, and what completes the phases of its barriers.

    Attributes:
        arrivals: of one block, by ``"full"`` and ``"empty"``; empty where the user states them.
        counts: arrivals that complete a phase, by the same keys.
        sharing: blocks of the cluster that write into each other's stages; 1 without multicast.
        drains: roles that wait for all stages, and where.
    """

    name: str
    type: RingType
    loc: Loc
    axes: tuple[int, ...]
    fillings: list[Filling] = field(default_factory=list)
    stores: list[tuple[str, str, Loc]] = field(default_factory=list)  # role, what, where
    producers: list[str] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    drains: list[tuple[str, Loc]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    arrivals: dict[str, tuple[Arrival, ...]] = field(default_factory=dict)
    stated: dict[str, bool] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The most that a stage expects."""
        return max((filling.nbytes for filling in self.fillings), default=0)


@dataclass(slots=True)
class Role:
    """A role as it runs.

    Attributes:
        registers: of a thread; ``fixed`` says whether the role asks for just so many.
        does: what it does with rings and tensors, one text for each.
    """

    name: str
    group: str
    first_warp: int
    warps: int
    mode: str
    parts: int
    registers: int
    fixed: bool
    does: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Barriers:
    """A row of mbarriers of the user's own, or those that hand a turn on."""

    name: str
    number: int
    count: int
    arrivals: tuple[Arrival, ...]
    turns: bool
    loc: Loc


@dataclass(slots=True)
class Named:
    name: str
    id: int
    threads: int
    who: str


@dataclass(slots=True)
class Shared:
    name: str
    offset: int
    nbytes: int
    what: str


@dataclass(slots=True)
class Map:
    """A tensor map that the launch encodes."""

    tensor: str
    use: str
    box: str
    swizzle: int
    more: str


@dataclass(slots=True)
class Facts:
    """All that ``explain`` shows."""

    name: str
    target: str
    threads: int
    persistent: bool
    cluster: tuple[int, ...]
    shared_bytes: int
    shared_limit: int
    rings: list[Ring]
    roles: list[Role]
    barriers: list[Barriers]
    named: list[Named]
    shared: list[Shared]
    maps: list[Map]


class Collector:
    """Reads a kernel behind the passes: ``after`` is the hook of ``bring_down``."""

    def __init__(self) -> None:
        self._rings: dict[Value, Ring] = {}
        self._own: list[sync.MbarrierCreate] = []
        self._does: dict[str, list[str]] = {}

    def after(self, name: str, kernel: Kernel) -> None:
        if name != STAGES_STAND:
            return
        plan = kernel.plan
        assert plan is not None
        for op in kernel.body.walk():
            if isinstance(op, tile.PipelineCreate):
                self._rings[op.result] = _ring(op, plan)
            elif isinstance(op, sync.MbarrierCreate):
                self._own.append(op)
        roles = [op for op in kernel.body.ops if isinstance(op, control.Role)]
        for role in roles:
            self._visit(role.name, role.group or role.name, role.body)
        if not roles:
            self._visit("main", "main", kernel.body)

    def _visit(self, name: str, group: str, body: Block) -> None:
        guards = Guards(body)
        does: dict[str, dict[str, None]] = {"in turns": {}, "fills": {}, "takes": {}, "writes": {}}
        for op in body.walk():
            side = ring_and_side(op)
            if side is not None:
                ring = self._rings[side[0]]
                users = ring.producers if side[1] == "producer" else ring.consumers
                if group not in users:
                    users.append(group)
                does["fills" if side[1] == "producer" else "takes"][ring.name] = None
            match op:
                case tile.Drain():
                    _once(self._rings[op.ring].drains, (group, op.loc))
                case memory.SharedStore():
                    for of in guards.rings(op.tile):
                        _once(self._rings[of].stores, (group, user_call(op), op.loc))
                case copy.AsyncCopy():
                    for of in guards.rings(op.barrier):
                        what = f"td.async_copy of {op.tensor.name}"
                        _once(self._rings[of].stores, (group, what, op.loc))
                case tile.TmaStore() | memory.TileStore() | tile.TensorStore():
                    does["writes"][op.tensor.name] = None
                case sync.TurnBegin():
                    does["in turns"][op.name] = None
        for acquire, loads in loads_by_stage(body).items():
            assert isinstance(acquire, tile.AcquireProducer)
            filling = Filling(
                group,
                acquire.nbytes or 0,
                [Load(_describe(op), count * tile_bytes(op), op.loc) for op, count in loads],
                acquire.loc,
            )
            _once(self._rings[acquire.ring].fillings, filling)
        self._does[name] = [f"{act} {', '.join(names)}" for act, names in does.items() if names]

    def facts(self, kernel: Kernel, limits: Limits) -> Facts:
        """Everything, once the kernel is at protocol level."""
        plan = kernel.plan
        assert plan is not None
        return Facts(
            name=kernel.name,
            target=kernel.target,
            threads=plan.threads,
            persistent=kernel.persistent,
            cluster=kernel.cluster,
            shared_bytes=plan.shared_bytes,
            shared_limit=limits.shared_bytes,
            rings=list(self._rings.values()),
            roles=self._roles(kernel, plan, limits),
            barriers=[_barriers(op, plan) for op in self._own],
            named=_named(plan),
            shared=[Shared(i.name, i.offset, i.nbytes, i.what) for i in plan.shared],
            maps=_maps(kernel, plan),
        )

    def _roles(self, kernel: Kernel, plan: Plan, limits: Limits) -> list[Role]:
        groups = {op.name: op.group for op in kernel.body.ops if isinstance(op, control.Role)}
        threads = max(plan.threads, 1)
        entry = min(limits.registers // threads // 8 * 8, limits.thread_registers)
        return [
            Role(
                role.name,
                groups.get(role.name, "") or role.name,
                role.first_warp,
                role.warps,
                role.mode,
                role.parts,
                role.registers or entry,
                role.registers is not None,
                self._does.get(role.name, []),
            )
            for role in plan.roles
        ]


def _once(items: list[_T], item: _T) -> None:
    """Replicas do the same at the same place: it is said once."""
    if item not in items:
        items.append(item)


def _ring(op: tile.PipelineCreate, plan: Plan) -> Ring:
    ring = Ring(op.name, op.ring, op.loc, op.axes)
    for number, which in enumerate(("full", "empty")):
        key = (op.name, which)
        ring.counts[which] = plan.counts.get(key, 0)
        ring.arrivals[which] = plan.arrivals.get(key, ())
        ring.stated[which] = op.counts[number] is not None
    return ring


def _describe(op: Op) -> str:
    assert isinstance(op, BULK_LOADS) and isinstance(op.tile.type, SharedTile)
    text = f"{user_call(op)} of {op.tensor.name}, {shape_text(op.tile.type.shape)}"
    axes = getattr(op, "multicast", ())
    if axes:
        which = " and ".join(map(str, axes))
        how = "shared out" if getattr(op, "partitioned", True) else "by the first block"
        text += f", multicast along axis {which} ({how})"
    return text


def _barriers(op: sync.MbarrierCreate, plan: Plan) -> Barriers:
    key = (op.name, "raw")
    count = plan.counts.get(key, op.count or 1)
    return Barriers(op.name, op.number, count, plan.arrivals.get(key, ()), op.turns, op.loc)


def _named(plan: Plan) -> list[Named]:
    found = [Named(name, n.id, n.threads, "td.named_barrier") for name, n in plan.named.items()]
    for role in plan.roles:
        if role.part_barrier:
            for part in range(role.parts):
                alone = role.parts == 1
                name = role.name if alone else f"{role.name}, part {part}"
                who = f"the threads of {'the role' if alone else 'a part'} meet"
                found.append(Named(name, role.part_barrier + part, role.part_threads, who))
        if role.role_barrier and role.role_barrier != role.part_barrier:
            threads = role.parts * role.part_threads
            found.append(
                Named(role.name, role.role_barrier, threads, "the threads of the role meet")
            )
    return sorted(found, key=lambda named: named.id)


def _maps(kernel: Kernel, plan: Plan) -> list[Map]:
    found = []
    for slot in plan.params:
        spec = slot.spec
        if spec is None:
            continue
        more = ""
        if any(step != 1 for step in spec.element_strides):
            more = f"element strides {'x'.join(map(str, spec.element_strides))}"
        if spec.im2col is not None:
            more += f"{', ' if more else ''}im2col {spec.im2col.lower} to {spec.im2col.upper}"
        box = shape_text(spec.box)
        name = kernel.params[spec.param].name
        found.append(Map(name, spec.use, f"{box} {spec.dtype.short}", spec.swizzle, more))
    return found


def cluster_text(cluster: tuple[int, ...]) -> str:
    """``2 x 1 blocks``; empty without clusters."""
    return "" if prod(cluster) == 1 else f"{' x '.join(map(str, cluster))} blocks"
