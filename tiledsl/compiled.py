"""One compiled variant of a kernel, and what can be read from it.

Everything below the protocol level is made when it is first asked for, so that the emulator pays
for no LLVM, and reading the PTX needs no assembler.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops.tile import Print
from tiledsl.codegen.ir.plan import Plan
from tiledsl.codegen.ir.verifier import verify
from tiledsl.codegen.nvptx.targets import Target
from tiledsl.codegen.passes import PassHooks, bring_down
from tiledsl.codegen.passes.rewrite import remove_dead
from tiledsl.errors import PerformanceWarning

if TYPE_CHECKING:
    from tiledsl.codegen.assemble import Assembled, PtxasMessage

_T = TypeVar("_T")
_SETMAXNREG_IGNORED = "C7504"  # docs/decisions/0005
_LOCAL_MEMORY = "Local memory used"


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a block of the kernel takes, from the plan and from the assembler's report.

    Attributes:
        threads: threads of a block.
        shared_bytes: dynamic shared memory of a block.
        cluster: blocks of a cluster along x, y and z of the grid.
        registers: registers a thread has at entry.
        barriers: named barriers in use.
        spill_store_bytes, spill_load_bytes: local memory traffic from spilled registers.
        stack_bytes: local memory of a thread.
        warnings: every warning of the assembler, with the PTX line and the user's line.
        assembler: which assembler reported this.
    """

    threads: int
    shared_bytes: int
    cluster: tuple[int, int, int]
    registers: int
    barriers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    warnings: tuple[PtxasMessage, ...]
    assembler: str


@dataclass(eq=False)
class CompiledKernel:
    """A kernel for given argument types, constants and target.

    Attributes:
        name: the kernel's name in the PTX.
        target: such as ``"sm_90a"``.
        ir: tile-level IR text: what the program says.
        kernel: protocol-level IR with its plan; ``protocol_ir`` is its text.
        timings: seconds spent in ``"frontend"``, ``"passes"``, ``"llvm_ir"`` (building LLVM IR),
            ``"llvm"`` (optimising it and printing PTX) and ``"assemble"``, as far as reached.
    """

    name: str
    target: Target
    ir: str
    kernel: Kernel
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        assert self.kernel.plan is not None
        return self.kernel.plan

    @property
    def cluster(self) -> tuple[int, ...]:
        """Blocks of a cluster along each of its axes, as the kernel was declared."""
        return self.kernel.cluster

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Arrivals that complete a phase of each barrier, by its ring and ``"full"``/``"empty"``.

        Of raw mbarriers by their name and ``"raw"``. A copy: the kernel is compiled already.
        """
        return dict(self.plan.counts)

    @cached_property
    def protocol_ir(self) -> str:
        """Protocol-level IR text: barriers, waits, groups, and the plan as comments."""
        return str(self.kernel)

    @cached_property
    def llvm_input(self) -> str:
        """The LLVM IR that tiledsl builds, before LLVM optimises it."""
        from tiledsl.codegen.nvptx.lower import emit_llvm

        return self._timed("llvm_ir", lambda: emit_llvm(self.kernel))

    @cached_property
    def _optimised(self) -> tuple[str, str]:
        from tiledsl.codegen.nvptx.lower import emit_ptx

        source = self.llvm_input
        return self._timed("llvm", lambda: emit_ptx(source, self.target.name))

    @property
    def llvm(self) -> str:
        """The LLVM IR after optimisation."""
        return self._optimised[0]

    @property
    def ptx(self) -> str:
        """The PTX, with a ``.loc`` of the user's file for every line that has one."""
        return self._optimised[1]

    @cached_property
    def _assembled(self) -> Assembled:
        from tiledsl.codegen.assemble import assemble

        ptx = self.ptx
        result = self._timed("assemble", lambda: assemble(ptx, self.target.name, self.name))
        for message in result.resources.warnings:
            self._warn(message, result.resources.assembler)
        return result

    def assemble(self) -> None:
        """Make everything down to the cubin now, so that its errors and warnings come now."""
        _ = self._assembled

    @property
    def cubin(self) -> bytes:
        """The machine code, as an ELF image for the driver."""
        return self._assembled.cubin

    @cached_property
    def resources(self) -> KernelResources:
        """Registers, spills, shared memory and warnings. Needs no GPU."""
        found = self._assembled.resources
        return KernelResources(
            threads=self.plan.threads,
            shared_bytes=self.plan.shared_bytes,
            cluster=self.kernel.cluster_dims,
            registers=found.registers,
            barriers=found.barriers,
            spill_store_bytes=found.spill_store_bytes,
            spill_load_bytes=found.spill_load_bytes,
            stack_bytes=found.stack_bytes,
            warnings=found.warnings,
            assembler=found.assembler,
        )

    def sass(self) -> str:
        """The disassembled machine code. Needs ``nvdisasm`` or ``cuobjdump``."""
        from tiledsl.codegen.sass import sass

        return sass(self.cubin)

    def _warn(self, message: PtxasMessage, assembler: str) -> None:
        """Warn at the user's line: who asked for the compilation does not matter here."""
        if _LOCAL_MEMORY in message.text and any(
            isinstance(op, Print) for op in self.kernel.body.walk()
        ):
            return  # printing goes through it
        text = f"{self.name}: {message}"
        if message.code == _SETMAXNREG_IGNORED and assembler.startswith("nvJitLink"):
            text += "; hint: ptxas does not ignore it: pip install nvidia-cuda-nvcc"
        # One that names neither a line nor a function is about the kernel as a whole.
        loc = message.loc or self.kernel.loc
        if not loc.line:
            warnings.warn(text, PerformanceWarning, stacklevel=2)
        else:
            warnings.warn_explicit(text, PerformanceWarning, loc.file, loc.line)

    def _timed(self, what: str, run: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        result = run()
        self.timings[what] = time.perf_counter() - started
        return result

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.name} for {self.target.name}>"


def compile_tile_level(
    build: Callable[[], Kernel], target: Target, dump: Callable[[str, Kernel], None] | None = None
) -> CompiledKernel:
    """Trace a kernel with ``build`` and bring it down to protocol level."""
    started = time.perf_counter()
    kernel = build()
    remove_dead(kernel)  # such as the extents of a shape that the kernel does not use
    verify(kernel, "frontend")
    traced = time.perf_counter()
    text = str(kernel)
    bring_down(kernel, target.limits, PassHooks(after=dump))
    timings = {"frontend": traced - started, "passes": time.perf_counter() - traced}
    return CompiledKernel(kernel.name, target, text, kernel, timings)
