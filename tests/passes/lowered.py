"""Kernels for the tests of the passes, and how far to bring them down."""

from __future__ import annotations

from typing import Any

import tiledsl as td
from tests.kernels.gemm import gemm
from tiledsl.compiled import CompiledKernel

__all__ = ["BF16", "consumer_body", "gemm", "protocol"]

BF16 = td.spec((512, 512), td.bfloat16)


def protocol(kernel: td.Kernel, *args: Any, **constants: Any) -> CompiledKernel:
    """A variant at protocol level; nothing below is made unless asked for."""
    return kernel.lower(*(args or (BF16, BF16, BF16)), **constants)


def consumer_body(kernel: td.Kernel, **constants: Any) -> str:
    """The protocol-level text of the role ``mma``."""
    text = protocol(kernel, **constants).protocol_ir
    return text[text.index('role "mma"') :]
