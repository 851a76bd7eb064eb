"""What an architecture has: the one table that placement, checks and emission read."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.plan import Limits
from tiledsl.errors import Loc, TargetNotSupported


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture.

    Attributes:
        name: as the user writes it and as LLVM and ptxas call it, such as ``"sm_90a"``.
        ptx: the PTX version to emit, (major, minor).
        features: what operations may ask for by ``needs``.
        shared_bytes: dynamic shared memory that a block may have, in bytes.
        registers: 32-bit registers of a multiprocessor.
        thread_registers: registers that one thread can address.
        threads: threads that a block may have.
        named_barriers: barriers of a block, number 0 (all threads) included.
        cluster_blocks: blocks that a cluster may have on every GPU of this kind.
    """

    name: str
    ptx: tuple[int, int]
    features: frozenset[str]
    shared_bytes: int
    registers: int
    thread_registers: int
    threads: int
    named_barriers: int
    cluster_blocks: int

    @property
    def limits(self) -> Limits:
        """What the planning passes need to know."""
        return Limits(
            shared_bytes=self.shared_bytes,
            registers=self.registers,
            thread_registers=self.thread_registers,
            threads=self.threads,
            named_barriers=self.named_barriers,
        )

    @property
    def ptx_feature(self) -> str:
        """The PTX version as LLVM's feature string spells it."""
        return f"+ptx{self.ptx[0]}{self.ptx[1]}"

    @property
    def ptx_version(self) -> str:
        """The PTX version as the header of a PTX text spells it."""
        return f"{self.ptx[0]}.{self.ptx[1]}"


TARGETS: dict[str, Target] = {
    "sm_90a": Target(
        name="sm_90a",
        ptx=(8, 6),
        features=frozenset({"tma", "wgmma", "mbarrier", "setmaxnreg", "cluster"}),
        shared_bytes=232448,
        registers=65536,
        thread_registers=255,
        threads=1024,
        named_barriers=16,
        cluster_blocks=8,
    ),
}


def get_target(name: str, loc: Loc | None = None) -> Target:
    """The target called ``name``.

    Raises:
        TargetNotSupported: when tiledsl does not know it; the message lists those it knows.
    """
    target = TARGETS.get(name)
    if target is None:
        known = ", ".join(TARGETS)
        raise TargetNotSupported(
            f"no target {name!r}: expected one of {known}",
            loc,
            hint=f'write target="{next(iter(TARGETS))}"',
        )
    return target
