"""Kernel at protocol level -> LLVM text -> PTX: the two functions that the rest of tiledsl calls.

llvmlite is imported on the first call, not with this module: ``import tiledsl`` stays fast.
"""

from __future__ import annotations

from tiledsl.codegen.ir.kernel import Kernel

__all__ = ["emit_llvm", "emit_ptx"]


def emit_llvm(kernel: Kernel) -> str:
    """LLVM IR text of a kernel at protocol level whose plan is filled.

    Raises:
        TargetNotSupported: unknown target, or an operation that the target lacks.
        TypeMismatch, InvalidValue: a tile that the hardware instruction cannot take.
        InternalError: IR that no pass should have produced.
    """
    from tiledsl.codegen.nvptx.entry import lower_kernel

    return lower_kernel(kernel)


def emit_ptx(llvm_text: str, target: str, *, opt: int = 3) -> tuple[str, str]:
    """Optimise LLVM IR text (from ``emit_llvm``) and print it as PTX.

    Args:
        llvm_text: one module.
        target: such as ``"sm_90a"``.
        opt: LLVM's optimisation level, 0 ... 3.

    Returns:
        The optimised LLVM text, and the PTX text.

    Raises:
        TargetNotSupported: unknown target.
        InternalError: LLVM refuses the text, or the PTX calls what it must not.
    """
    from tiledsl.codegen.nvptx.machine import compile_llvm

    return compile_llvm(llvm_text, target, opt)
