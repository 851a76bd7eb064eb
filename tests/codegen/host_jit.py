"""Runs a kernel's LLVM IR on the CPU: for kernels of one thread that use no inline PTX.

What is emitted for arithmetic and control flow is plain LLVM IR, so its meaning can be tested
without a GPU: the block's index becomes a global variable and the rest is compiled for the host.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.nvptx.lower import emit_llvm

_SPECIAL = re.compile(r'declare i32 @"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.(\w)"\(\)')


def host_text(kernel: Kernel) -> str:
    """The kernel's LLVM text for the host; block and thread indices are global variables."""
    text = emit_llvm(kernel)
    text = re.sub(r"^target .*$", "", text, flags=re.MULTILINE).replace("ptx_kernel ", "")
    text = _SPECIAL.sub(
        r"@\1.\2 = global i32 0\n"
        r'define i32 @"host.\1.\2"() {\n  %v = load i32, ptr @\1.\2\n  ret i32 %v\n}',
        text,
    )
    # A shuffle of a number that is the same in the whole warp.
    text = text.replace(
        'declare i32 @"llvm.nvvm.shfl.sync.idx.i32"(i32 %".1", i32 %".2", i32 %".3", i32 %".4")',
        'define i32 @"host.shfl"(i32 %m, i32 %v, i32 %l, i32 %c) {\n  ret i32 %v\n}',
    ).replace('@"llvm.nvvm.shfl.sync.idx.i32"', '@"host.shfl"')
    return re.sub(r'@"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.(\w)"', r'@"host.\1.\2"', text)


class HostKernel:
    """A kernel compiled for the host."""

    def __init__(self, kernel: Kernel, text: Callable[[Kernel], str] = host_text) -> None:
        assert kernel.plan is not None
        self.kernel = kernel
        self.slots = kernel.plan.params
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()
        module = binding.parse_assembly(text(kernel))
        module.verify()
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.address = self.engine.get_function_address(kernel.name)

    def __call__(self, arguments: Sequence[Any], blocks: int = 1, thread: int = 0) -> None:
        """Run one thread of each block. Arrays are NumPy arrays, scalars Python numbers."""
        kinds, values = [], []
        for slot in self.slots:
            given = arguments[slot.param]
            kind, value = self._machine_argument(slot.kind, given, slot.axis)
            kinds.append(kind)
            values.append(value)
        function = ctypes.CFUNCTYPE(None, *kinds)(self.address)
        self._set("tid.x", thread)
        for block in range(blocks):
            self._set("ctaid.x", block)
            function(*values)

    def _set(self, register: str, value: int) -> None:
        address = self.engine.get_global_value_address(register)
        if address:  # 0 where the kernel does not read it
            ctypes.c_int32.from_address(address).value = value

    @staticmethod
    def _machine_argument(kind: str, given: Any, axis: int) -> tuple[Any, Any]:
        if kind == "pointer":
            return ctypes.c_void_p, given.ctypes.data
        if kind == "dim":
            return ctypes.c_int32, given.shape[axis]
        if kind == "stride":
            return ctypes.c_int64, given.strides[axis] // given.itemsize
        assert kind == "scalar" and isinstance(given, int | np.integer)
        return ctypes.c_int32, int(given)
