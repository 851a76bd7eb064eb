"""Small kernels in handwritten PTX: run them, or get what the machine says about them."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.machine import Launch, Result, run
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode
from tiledsl.runtime.ptx_machine.report import MachineFault

Array = np.ndarray[Any, Any]
FILE = "/home/user/kernel.py"
SOURCE = "".join(f"    line_{number}()\n" for number in range(1, 10))
WORDS = 64  # of the array x


def text_of(body: str, module: str = "") -> str:
    """A kernel of one parameter x (an address), with buf, bar and registers of each class."""
    return (
        '.version 8.6\n.target sm_90a\n.address_size 64\n.file 1 "/home/user/kernel.py"\n'
        f"{module}\n.visible .entry k(.param .u64 x)\n{{\n"
        ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %d<16>;\n"
        ".shared .align 1024 .b8 buf[8192];\n.shared .align 8 .b64 bar;\n"
        "ld.param.u64 %d0, [x];\nmov.u32 %r0, %tid.x;\n"
        f"{body}\nret;\n}}\n"
    )


def start(
    body: str,
    *,
    threads: int = 32,
    blocks: int = 1,
    cluster: int = 1,
    module: str = "",
    x: Array | None = None,
    readonly: bool = False,
    **options: Any,
) -> Result:
    """Run a kernel on an array x of WORDS 32-bit words."""
    linecache.cache[FILE] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), FILE)
    data = x
    if data is None:  # at a multiple of 64 bytes, so that messages stay the same
        data = np.zeros(WORDS + 16, np.uint32)
        data = data[-data.ctypes.data % 64 // 4 :]
    memory = GlobalMemory()
    at = memory.add("x", data.ctypes.data, 4 * WORDS, readonly=readonly, owner=data)
    launch = Launch(
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        parameters=at.to_bytes(8, "little"),
        memory=memory,
        **options,
    )
    return run(decode(parse(text_of(body, module))), launch)


def fault_of(body: str, **options: Any) -> MachineFault:
    """What the machine says; without the addresses and lines that only the layout decides."""
    try:
        start(body, **options)
    except MachineFault as fault:
        return fault
    raise AssertionError("no fault was found")
