"""What the planning passes decide: roles on warps, registers, shared memory, parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.errors import Loc

WARP = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """What a block may use at most, from the target's table.

    Attributes:
        shared_bytes: dynamic shared memory of a block.
        registers: 32-bit registers of a multiprocessor.
        thread_registers: registers that one thread can address.
        threads: threads of a block.
        named_barriers: barriers of a block, number 0 (all threads) included.
    """

    shared_bytes: int
    registers: int
    thread_registers: int
    threads: int
    named_barriers: int


@dataclass(slots=True)
class RolePlan:
    """Where a role runs.

    Attributes:
        name: the role's name; ``"main"`` for a kernel without roles.
        warps: warps asked for.
        first_warp: index in the block of its first warp.
        mode: ``"thread"``: one elected thread of the first warp runs the whole role;
            ``"warpgroup"``: all threads run it, one part a warpgroup; ``"warps"``: all threads
            run it, as one part (a role of any number of warps that copies with ``cp.async``).
        registers: ``setmaxnreg`` value of its warpgroups, or None to leave the entry count.
        part_barrier: named barrier of part 0; part p uses ``part_barrier + p``. 0 when unused.
        role_barrier: named barrier of the whole role. 0 when unused.
    """

    name: str
    warps: int
    first_warp: int
    mode: str
    registers: int | None = None
    part_barrier: int = 0
    role_barrier: int = 0

    @property
    def parts(self) -> int:
        """Coroutines of the role: one, or one a warpgroup."""
        return self.warps // 4 if self.mode == "warpgroup" else 1

    @property
    def part_threads(self) -> int:
        if self.mode == "warps":
            return WARP * self.warps
        return 4 * WARP if self.mode == "warpgroup" else 1


@dataclass(frozen=True, slots=True)
class SharedItem:
    """One object in dynamic shared memory: ``nbytes`` at ``offset`` (bytes from its start)."""

    name: str
    offset: int
    nbytes: int
    align: int
    what: str  # such as "4 stages x 128x64xbf16"


@dataclass(frozen=True, slots=True)
class Im2col:
    """Bounds of the window corners, one for each spatial dimension in the tensor's order.

    Corners go from ``lower`` to ``extent - 1 + upper``.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """A named barrier between roles: its hardware id and the threads that complete it."""

    id: int
    threads: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """Arrivals of one role in each phase of a barrier, and why so many."""

    role: str
    number: int
    why: str  # such as "one of each part"


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """A tensor map that the launch has to encode from an argument.

    Attributes:
        param: index of the tensor parameter.
        dtype: element type.
        box: extents of one copy, one a dimension of the tensor, in the tensor's order.
        swizzle: 128, 64, 32 or 0 bytes.
        use: ``"load"`` or ``"store"``.
        element_strides: steps between the elements that are taken, one a dimension in the
            tensor's order; empty for all 1.
        im2col: the box of window corners of an im2col map, else None; ``box`` is then (pixels,
            channels), and ``element_strides`` has one entry for each dimension.
    """

    param: int
    dtype: DType
    box: tuple[int, ...]
    swizzle: int
    use: str
    element_strides: tuple[int, ...] = ()
    im2col: Im2col | None = None


@dataclass(frozen=True, slots=True)
class ParamSlot:
    """One machine parameter of the compiled kernel, in order.

    ``kind`` is ``"tensormap"`` (128 bytes, ``spec``), ``"pointer"`` (8 bytes, global address of
    tensor ``param``), ``"dim"`` (int32 extent ``axis`` of tensor ``param``), ``"stride"`` (int64
    stride of ``axis`` in elements) or ``"scalar"`` (value of ``param`` as ``dtype``; bool_ as one
    byte, 16-bit and fp8 floats as their bits).
    """

    kind: str
    param: int
    axis: int = 0
    dtype: DType | None = None
    spec: TensorMapSpec | None = None

    def __str__(self) -> str:
        if self.spec is not None:
            box = "x".join(str(extent) for extent in self.spec.box)
            text = f"tensormap #{self.param} {self.spec.use} box={box} swizzle={self.spec.swizzle}"
            if self.spec.element_strides:
                text += f" element_strides={self.spec.element_strides}"
            if self.spec.im2col is not None:
                text += f" im2col corners {self.spec.im2col.lower} to {self.spec.im2col.upper}"
            return text
        if self.kind in ("dim", "stride"):
            return f"{self.kind} #{self.param}.{self.axis}"
        return f"{self.kind} #{self.param}" + (f" {self.dtype.short}" if self.dtype else "")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on extents and scalar arguments, to be checked on the host before a launch."""

    condition: Value
    message: str
    loc: Loc


@dataclass(slots=True)
class Plan:
    """All decisions. Each planning pass fills in its part.

    Attributes:
        roles: in the order of their ``role`` operations.
        threads: threads of a block.
        entry_registers: registers a thread has at entry when roles change them, else None.
        shared: objects in dynamic shared memory, by offset.
        shared_bytes: dynamic shared memory of a block.
        counts: arrivals that complete a phase, by ring name and ``"full"``/``"empty"``; for raw
            mbarriers by their name and ``"raw"``.
        arrivals: who brings them, by the same keys, as far as they are derived. In a cluster the
            count is a multiple of their sum: the blocks that share a barrier.
        named: the named barriers between roles, by name.
        params: machine parameters in order.
        requirements: what a launch must fulfil (``assert`` at the top of the kernel).
    """

    roles: list[RolePlan] = field(default_factory=list)
    threads: int = 0
    entry_registers: int | None = None
    shared: list[SharedItem] = field(default_factory=list)
    shared_bytes: int = 0
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    arrivals: dict[tuple[str, str], tuple[Arrival, ...]] = field(default_factory=dict)
    named: dict[str, NamedBarrier] = field(default_factory=dict)
    params: list[ParamSlot] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)

    def role(self, name: str) -> RolePlan:
        return next(role for role in self.roles if role.name == name)

    def shared_offset(self, name: str) -> int:
        return next(item.offset for item in self.shared if item.name == name)

    def describe(self) -> list[str]:
        """Comment lines for the printed IR."""
        lines = []
        if self.threads:
            entry = f", {self.entry_registers} registers at entry" if self.entry_registers else ""
            lines.append(f"// {self.threads} threads{entry}, {self.shared_bytes} bytes shared")
        for role in self.roles:
            last = role.first_warp + role.warps - 1
            where = f"warps {role.first_warp}-{last}" if role.warps > 1 else f"warp {last}"
            how = {
                "thread": "one thread",
                "warps": "all threads",
                "warpgroup": f"{role.parts} warpgroup part(s)",
            }[role.mode]
            regs = f", {role.registers} registers" if role.registers else ""
            lines.append(f"// role {role.name}: {where}, {how}{regs}")
        for (ring, which), count in sorted(self.counts.items()):
            lines.append(f"// barrier {ring}.{which}: {count} arrival(s) a phase")
        for name, named in sorted(self.named.items()):
            lines.append(f"// named barrier {name}: id {named.id}, {named.threads} threads")
        for item in self.shared:
            lines.append(
                f"// shared {item.name}: {item.nbytes} bytes at {item.offset}, {item.what}"
            )
        lines += [f"// param {number}: {slot}" for number, slot in enumerate(self.params)]
        return lines
