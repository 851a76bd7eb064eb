"""LLVM text to PTX: parse, verify, optimise, print, and check what came out."""

from __future__ import annotations

import re
from functools import cache
from threading import Lock
from typing import Any

from llvmlite import binding

from tiledsl.codegen.nvptx.entry import TRIPLE
from tiledsl.codegen.nvptx.printf import VPRINTF
from tiledsl.codegen.nvptx.targets import Target, get_target
from tiledsl.errors import InternalError

_EXTERN = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$.]+)", re.MULTILINE)
_VERSION = re.compile(r"^\.version (\S+)$", re.MULTILINE)
_TARGET = re.compile(r"^\.target (\S+)$", re.MULTILINE)

# A target machine and a pass builder must not be used by two threads at once.
_LOCK = Lock()


@cache
def _machine(target: Target, opt: int) -> Any:
    """The target machine; made once, because initialising LLVM takes a while."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, features=target.ptx_feature, opt=opt
    )


def compile_llvm(text: str, target_name: str, opt: int) -> tuple[str, str]:
    """Optimised LLVM text and PTX of one module."""
    target = get_target(target_name)
    with _LOCK:
        machine = _machine(target, opt)
        module = _parse(text)
        module.data_layout = str(machine.target_data)
        options = binding.create_pipeline_tuning_options(speed_level=opt)
        # Everything a kernel computes is per thread already: vectorisers would only cost time.
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        ptx = machine.emit_assembly(module)
        optimised = str(module)
    _check(ptx, target)
    return optimised, ptx


def _parse(text: str) -> Any:
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the module: {error}") from None
    return module


def _check(ptx: str, target: Target) -> None:
    """What would be found late otherwise: by ptxas, by the driver, or as slow code."""
    outside = [name for name in _EXTERN.findall(ptx) if name != VPRINTF]
    if outside:
        # An intrinsic that LLVM does not know becomes an external function (hazard H12).
        raise InternalError(f"the PTX calls functions that nobody defines: {', '.join(outside)}")
    version, arch = _VERSION.search(ptx), _TARGET.search(ptx)
    got = (version and version[1], arch and arch[1])
    if got != (target.ptx_version, target.name):
        raise InternalError(
            f"the PTX is version {got[0]} for {got[1]}: expected {target.ptx_version} for"
            f" {target.name}"
        )
