"""PTX to cubin, without GPU or driver: resources, and messages at the user's line.

Two assemblers do it. **ptxas**, a subprocess, compiles the whole program. **nvJitLink**, a
library, has no way to be told so: it compiles PTX as relocatable code (`ptxas -c`), where
`setmaxnreg` is always ignored (C7504), so that no warp-specialised kernel can move registers
between its roles. Hence "auto" takes ptxas when there is one; measured, its process costs no
more than nvJitLink's linking.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from

from tiledsl.codegen.ptx_lines import LineTable, line_table
from tiledsl.codegen.ptxas_log import PtxasMessage, parse_functions, parse_messages
from tiledsl.codegen.toolkit import WHEELS, ToolNotFound, find_tool, require_tool
from tiledsl.errors import PtxError, ResourceLimit, TargetNotSupported, TileError

__all__ = [
    "ASSEMBLERS",
    "Assembled",
    "LineTable",
    "PtxasMessage",
    "Resources",
    "ToolNotFound",
    "assemble",
    "line_table",
]

ASSEMBLERS = ("auto", "ptxas", "nvjitlink")
TARGETS = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a",
    "sm_100f", "sm_103", "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120",
    "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f",
)  # fmt: skip
"""What the assemblers of CUDA 13.0 know; named in messages only, a newer one may know more."""

_TARGET = re.compile(r"sm_\d+[af]?")
_VERSION = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")
_WARN = ("--warn-on-spills", "--warn-on-local-memory-usage")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes, as the assembler says.

    Attributes:
        registers: per thread, at entry (before any `setmaxnreg`).
        barriers: hardware named barriers per block, of 16.
        spill_store_bytes: bytes per thread stored because registers ran out, counted statically.
        spill_load_bytes: the same for loads.
        stack_bytes: local memory per thread, spills included.
        static_shared_bytes: shared memory per block declared in the PTX, without dynamic shared
            memory and without the 1 KiB that the driver reserves.
        constant_bytes: constant bank 0: the launch's bookkeeping (528 bytes on sm_90), then
            the kernel's parameters.
        warnings: every diagnostic, in the assembler's order.
        compile_ms: the time that ptxas gives for the kernel, where it gives one.
        assembler: which one it was, such as "ptxas 13.0.88" or "nvJitLink 13.5.37".
    """

    registers: int
    barriers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    constant_bytes: int
    warnings: tuple[PtxasMessage, ...]
    compile_ms: float | None
    assembler: str


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, what its kernel takes, and the assembler's whole log."""

    cubin: bytes
    resources: Resources
    log: str


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of an assembler: `cubin` is None when it failed, `status` then says how."""

    tool: str
    cubin: bytes | None
    log: str
    status: str = ""


def assemble(
    ptx: str,
    target: str,
    kernel: str,
    *,
    assembler: str = "auto",
    lineinfo: bool = True,
    extra_options: Sequence[str] = (),
) -> Assembled:
    """Assemble PTX for one target, such as "sm_90a".

    Args:
        ptx: the whole text of one PTX module.
        target: the architecture to assemble for; it must be able to run the PTX's `.target`.
        kernel: the name of the kernel whose resources are wanted.
        assembler: "ptxas", "nvjitlink", or "auto": ptxas, and nvJitLink where there is no
            ptxas or it is too old for the PTX version.
        lineinfo: keep the user's lines in the cubin, for profilers and disassembly.
        extra_options: further ptxas options, each one word, such as "--register-usage-level=8".

    Raises:
        TargetNotSupported: (a ValueError) the target's name is malformed or unknown.
        ResourceLimit: the kernel needs more registers or shared memory than there are.
        PtxError: the assembler refused the PTX, or there is no such kernel in it.
        ToolNotFound: the assembler is not installed.
    """
    if not _TARGET.fullmatch(target):
        raise _unknown_target(target)
    if assembler not in ASSEMBLERS:
        expected = ", ".join(map(repr, ASSEMBLERS))
        raise ValueError(f"unknown assembler: expected one of {expected}, got {assembler!r}")
    run = _assemble(ptx, target, assembler, lineinfo, extra_options)
    messages = parse_messages(run.log, ptx)
    # nvJitLink may return a cubin with an empty kernel and only say "Undefined reference".
    if run.cubin is None or any(message.failed for message in messages):
        raise _failure(run, messages, ptx, target, kernel)
    version = _VERSION.search(run.cubin)
    name = f"{run.tool} {version[1].decode()}" if version else run.tool
    return Assembled(run.cubin, _resources(run, messages, kernel, name), run.log)


def _assemble(
    ptx: str, target: str, assembler: str, lineinfo: bool, extra_options: Sequence[str]
) -> _Run:
    if assembler == "nvjitlink":
        return _nvjitlink(ptx, target, lineinfo, extra_options)
    path = require_tool("ptxas") if assembler == "ptxas" else find_tool("ptxas")
    if path is not None:
        run = _ptxas(path, ptx, target, lineinfo, extra_options)
        too_old = run.cubin is None and "Unsupported .version" in run.log
        if assembler == "ptxas" or not too_old:
            return run
    try:
        return _nvjitlink(ptx, target, lineinfo, extra_options)
    except ToolNotFound:
        if path is not None:
            return run
        raise ToolNotFound(
            "no assembler was found: expected ptxas or nvJitLink",
            hint=f"pip install {WHEELS['ptxas']}",
        ) from None


def _ptxas(path: str, ptx: str, target: str, lineinfo: bool, extra_options: Sequence[str]) -> _Run:
    with tempfile.TemporaryDirectory(prefix="tiledsl-") as folder:
        source, output = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        line_option = ("--generate-line-info",) if lineinfo else ()
        command = [path, f"--gpu-name={target}", "--verbose", *_WARN, *line_option]
        command += [*extra_options, source.name, "--output-file", output.name]
        # The folder as working directory keeps its name, another each time, out of the log.
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        cubin = output.read_bytes() if done.returncode == 0 else None
    return _Run("ptxas", cubin, done.stdout + done.stderr, f"exit status {done.returncode}")


def _nvjitlink(ptx: str, target: str, lineinfo: bool, extra_options: Sequence[str]) -> _Run:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError) as error:  # cuda-python raises both, for lack of either
        raise ToolNotFound(
            f"nvJitLink was not found: {str(error).splitlines()[0]}",
            hint="pip install cuda-bindings nvidia-nvjitlink",
        ) from error
    options = [f"-arch={target}", "-verbose", *(["-lineinfo"] if lineinfo else [])]
    options += [f"-Xptxas={option}" for option in (*_WARN, *extra_options)]
    try:
        handle = nvjitlink.create(len(options), options)
    except nvjitlink.nvJitLinkError as error:
        return _Run("nvJitLink", None, "", str(error))

    def log() -> str:
        texts = []
        for size, get in (
            (nvjitlink.get_info_log_size, nvjitlink.get_info_log),
            (nvjitlink.get_error_log_size, nvjitlink.get_error_log),
        ):
            buffer = bytearray(size(handle))
            if buffer:
                get(handle, buffer)
            texts.append(buffer.rstrip(b"\0 \n").decode(errors="replace"))
        return "\n".join(filter(None, texts)) + "\n"

    try:
        data = ptx.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return _Run("nvJitLink", bytes(cubin), log())
    except nvjitlink.nvJitLinkError as error:
        return _Run("nvJitLink", None, log(), str(error))
    finally:
        nvjitlink.destroy(handle)


def _resources(
    run: _Run, messages: tuple[PtxasMessage, ...], kernel: str, assembler: str
) -> Resources:
    functions = parse_functions(run.log)
    entries = [name for name, use in functions.items() if use.entry]
    if kernel not in entries:
        found = ", ".join(map(repr, entries)) or "none"
        raise PtxError(f"the PTX has no kernel {kernel!r}: found {found}")
    own = functions[kernel]
    # A function that was not inlined spills on behalf of the kernel that calls it.
    uses = [own] + [use for use in functions.values() if not use.entry]

    def total(name: str) -> int:
        return sum(use.numbers.get(name, 0) for use in uses)

    return Resources(
        registers=own.numbers.get("registers", 0),
        barriers=own.numbers.get("barriers", 0),
        spill_store_bytes=total("spill_stores"),
        spill_load_bytes=total("spill_loads"),
        stack_bytes=own.numbers.get("stack", 0),
        static_shared_bytes=own.numbers.get("shared", 0),
        constant_bytes=_section_size(run.cubin or b"", f".nv.constant0.{kernel}"),
        warnings=messages,
        compile_ms=own.compile_ms,
        assembler=assembler,
    )


def _section_size(cubin: bytes, name: str) -> int:
    """Bytes of a section of an ELF64 file; 0 when it has none of that name."""
    (table,) = unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = unpack_from("<HHH", cubin, 0x3A)
    # Of each header: name, 20 bytes of type, flags and address, then file offset and size.
    headers = [unpack_from("<I20xQQ", cubin, table + i * entry_size) for i in range(count)]
    names = headers[names_index][1]
    wanted = name.encode() + b"\0"
    sizes = (size for at, _, size in headers if cubin.startswith(wanted, names + at))
    return next(sizes, 0)


def _unknown_target(target: str) -> TargetNotSupported:
    return TargetNotSupported(
        f"unknown target: expected sm_NN, sm_NNa or sm_NNf, got {target!r}",
        hint="known targets: " + ", ".join(TARGETS),
    )


def _failure(
    run: _Run, messages: tuple[PtxasMessage, ...], ptx: str, target: str, kernel: str
) -> TileError:
    """What to raise: the first error at the user's line, the PTX around it, the other errors."""
    if "'gpu-name'" in run.log or "UNRECOGNIZED_ARCH" in run.status:
        return _unknown_target(target)
    errors = [message for message in messages if message.failed]
    head = f"{run.tool} could not assemble kernel {kernel!r} for {target}: "
    if not errors:
        tail = "; ".join(run.log.strip().splitlines()[-3:])
        return PtxError(head + run.status + (f": {tail}" if tail else ""))
    first, rest = errors[0], errors[1:]
    notes = [("PTX:\n" + _excerpt(ptx, first.ptx_line), None)] if first.ptx_line else []
    shown = [(str(message), message.loc) for message in rest[:4]]
    more = [(f"and {len(rest) - 4} more errors", None)] if len(rest) > 4 else []
    if first.code == "C7602":  # registers of one instruction, of those a thread has at entry
        hint = "tiles with fewer columns, or fewer warps in the block: each thread then has more"
        return ResourceLimit(head + str(first), first.loc, hint, (*notes, *shown, *more))
    if "uses too much" in first.text:
        hint = "smaller tiles, or fewer stages"
        return ResourceLimit(head + str(first), first.loc, hint, (*notes, *shown, *more))
    if "Unsupported .version" in first.text:
        hint = f"a newer assembler: pip install --upgrade {WHEELS['ptxas']}"
    else:
        hint = "tiledsl wrote this PTX: please report the kernel, with the message"
    return PtxError(head + str(first), first.loc, hint, (*notes, *shown, *more))


def _excerpt(ptx: str, at: int, around: int = 2, width: int = 96) -> str:
    """The PTX lines around one, numbered, that one marked; long ones cut."""
    lines = ptx.split("\n")
    shown = []
    for number in range(max(1, at - around), min(len(lines), at + around) + 1):
        text = lines[number - 1].expandtabs(8)
        text = text if len(text) <= width else text[: width - 3] + "..."
        shown.append(f"  {'>' if number == at else ' '} {number:5} | {text}".rstrip())
    return "\n".join(shown)
