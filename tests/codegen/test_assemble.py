"""Assembling PTX: resources, messages at the user's line, and every way in which it fails."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from tests.codegen.ptx_kernels import (
    CALLS_UNKNOWN,
    LOOP,
    PIPELINED,
    SERIALIZED,
    spilling,
    with_setmaxnreg,
)
from tiledsl.codegen.assemble import (
    LineTable,
    PtxasMessage,
    ToolNotFound,
    assemble,
    line_table,
)
from tiledsl.codegen.ptxas_log import parse_functions, parse_messages
from tiledsl.codegen.toolkit import find_tool, require_tool
from tiledsl.errors import Loc, PtxError, ResourceLimit, TargetNotSupported

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
each_assembler = pytest.mark.parametrize(
    "assembler", [pytest.param("ptxas", marks=needs_ptxas), "nvjitlink"]
)
ELF = b"\x7fELF"


# --- Resources


@each_assembler
def test_resources(assembler: str) -> None:
    done = assemble(LOOP, "sm_90a", "scale", assembler=assembler)
    assert done.cubin.startswith(ELF)
    use = done.resources
    assert 8 <= use.registers <= 32
    assert use.barriers == 1
    assert (use.spill_store_bytes, use.spill_load_bytes, use.stack_bytes) == (0, 0, 0)
    assert use.static_shared_bytes == 1024
    assert use.constant_bytes == 0x210 + 12  # the launch's part, a pointer and an int
    assert use.warnings == ()
    assert use.compile_ms is not None
    assert use.compile_ms > 0
    name, version = use.assembler.split()
    assert name.lower() == assembler
    assert [part.isdecimal() for part in version.split(".")] == [True, True, True]
    assert "Compiling entry function 'scale' for 'sm_90a'" in done.log


@each_assembler
def test_spills_are_counted_and_warned_of(assembler: str) -> None:
    use = assemble(spilling(), "sm_90a", "spill", assembler=assembler).resources
    assert use.registers == 24
    assert use.spill_store_bytes >= 100
    assert use.spill_load_bytes >= 100
    assert use.stack_bytes >= use.spill_store_bytes
    local, spilled = use.warnings
    assert local.text == (
        f"Local memory used for function 'spill', size of stack frame: {use.stack_bytes} bytes"
    )
    assert spilled.text == (
        f"Registers are spilled to local memory in function 'spill', {use.spill_store_bytes} "
        f"bytes spill stores, {use.spill_load_bytes} bytes spill loads"
    )
    for warning in use.warnings:
        assert (warning.severity, warning.code, warning.ptx_line) == ("warning", None, None)
        assert (warning.file, warning.line) == ("/home/u/gemm.py", 40)


@needs_ptxas
def test_a_warp_specialised_kernel_without_entry_registers_is_warned_of() -> None:
    ptx = with_setmaxnreg("")
    (warning,) = assemble(ptx, "sm_90a", "roles", assembler="ptxas").resources.warnings
    assert warning.code == "C7508"
    assert warning.text == (
        "Potential Performance Loss: 'setmaxnreg' ignored; "
        "unable to determine register count at entry."
    )
    assert warning.ptx_line == 1 + ptx.split("\n").index("  setmaxnreg.inc.sync.aligned.u32 232;")
    assert (warning.file, warning.line) == ("/home/u/gemm.py", 31)


@needs_ptxas
def test_auto_honours_setmaxnreg() -> None:
    use = assemble(with_setmaxnreg(".maxnreg 128"), "sm_90a", "roles").resources
    assert use.warnings == ()
    assert use.registers == 128
    assert use.assembler.startswith("ptxas ")


def test_nvjitlink_cannot_honour_setmaxnreg() -> None:
    """Why "auto" prefers ptxas. Should this fail one day, nvJitLink can be the default."""
    ptx = with_setmaxnreg(".maxnreg 128")
    use = assemble(ptx, "sm_90a", "roles", assembler="nvjitlink").resources
    (warning,) = use.warnings
    assert str(warning) == (
        "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility "
        "across compilation units. (PTX line 16)"
    )
    assert warning.line == 31
    assert use.registers < 128


@each_assembler
def test_pipelined_wgmma_has_no_warning(assembler: str) -> None:
    use = assemble(PIPELINED, "sm_90a", "gemm", assembler=assembler).resources
    assert use.warnings == ()
    assert use.static_shared_bytes == 4096


@each_assembler
def test_an_injected_wait_is_warned_of_at_the_users_line(assembler: str) -> None:
    warnings = assemble(SERIALIZED, "sm_90a", "gemm", assembler=assembler).resources.warnings
    (injected,) = (warning for warning in warnings if warning.code == "C7517")
    assert f" is injected in around line {injected.ptx_line} by compiler " in injected.text
    assert injected.severity == "info"
    assert (injected.file, injected.line) == ("/home/u/gemm.py", 53)


@each_assembler
def test_serialised_wgmma_is_warned_of_at_the_kernels_first_line(assembler: str) -> None:
    """ptxas names no line for this one, or line 0."""
    ptx = SERIALIZED.replace('.pragma "nounroll";', "")
    warnings = assemble(ptx, "sm_90a", "gemm", assembler=assembler).resources.warnings
    (serialized,) = (warning for warning in warnings if warning.code == "C7514")
    assert "wgmma.mma_async instructions are serialized due to " in serialized.text
    assert (serialized.ptx_line, serialized.line) == (None, 50)


@each_assembler
def test_extra_options_reach_ptxas(assembler: str) -> None:
    options = ["--maxrregcount=32", "--override-directive-values"]
    use = assemble(PIPELINED, "sm_90a", "gemm", assembler=assembler, extra_options=options)
    assert use.resources.registers <= 32
    with pytest.raises(PtxError) as caught:
        assemble(LOOP, "sm_90a", "scale", assembler=assembler, extra_options=["--no-such"])
    assert caught.value.message.endswith(
        "could not assemble kernel 'scale' for sm_90a: Unknown option '-no-such'"
    )


@each_assembler
def test_too_few_registers_is_a_limit_not_a_fault_of_the_ptx(assembler: str) -> None:
    options = ["--maxrregcount=24", "--override-directive-values"]
    with pytest.raises(ResourceLimit) as caught:
        assemble(PIPELINED, "sm_90a", "gemm", assembler=assembler, extra_options=options)
    assert ": (C7602) Insufficient registers (24) to compile " in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.line == 52
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("tiles with fewer columns, or fewer warps")


@each_assembler
def test_too_much_shared_memory(assembler: str) -> None:
    ptx = LOOP.replace("buffer[1024]", "buffer[500000]")
    with pytest.raises(ResourceLimit) as caught:
        assemble(ptx, "sm_90a", "scale", assembler=assembler)
    assert "'scale' uses too much shared data (0x7a120 bytes, " in caught.value.message


@each_assembler
def test_lineinfo(assembler: str) -> None:
    path = b"gemm.py"
    assert path in assemble(LOOP, "sm_90a", "scale", assembler=assembler).cubin


# --- Failures


@each_assembler
def test_errors_stand_at_ptx_and_python_line(assembler: str) -> None:
    ptx = LOOP.replace("add.f32 %f2", "addd.f32 %f2").replace(
        "mul.wide.u32 %rd2", "mul.wide.u32 %f1"
    )
    with pytest.raises(PtxError) as caught:
        assemble(ptx, "sm_90a", "scale", assembler=assembler)
    tool = {"ptxas": "ptxas", "nvjitlink": "nvJitLink"}[assembler]
    assert str(caught.value) == (
        f"{tool} could not assemble kernel 'scale' for sm_90a: "
        "Arguments mismatch for instruction 'mul.wide' (PTX line 17)\n"
        '  File "/home/u/gemm.py", line 12\n'
        "note: PTX:\n"
        '       15 | again: .pragma "nounroll";\n'
        "       16 |   .loc 1 12 5\n"
        "  >    17 |   mul.wide.u32 %f1, %r2, 4;\n"
        "       18 |   .loc 2 3 9, function_name $L_name, inlined_at 1 12 5\n"
        "       19 |   add.s64 %rd3, %rd1, %rd2;\n"
        "note: Not a name of any known instruction: 'addd' (PTX line 21)\n"
        '  File "/home/u/helpers.py", line 3\n'
        '  called from File "/home/u/gemm.py", line 12\n'
        "hint: tiledsl wrote this PTX: please report the kernel, with the message"
    )
    assert caught.value.loc == Loc("/home/u/gemm.py", 12, 4)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@each_assembler
def test_only_the_first_errors_are_listed(assembler: str) -> None:
    ptx = LOOP.replace("  bar.sync 0;\n", "".join(f"  wrong{i} 0;\n" for i in range(9)))
    with pytest.raises(PtxError) as caught:
        assemble(ptx, "sm_90a", "scale", assembler=assembler)
    notes = [note for note, _ in caught.value.notes]
    assert "'wrong0'" in caught.value.message
    assert [f"'wrong{i}'" in notes[i] for i in range(1, 5)] == [True] * 4
    assert notes[5:] == ["and 4 more errors"]


def test_long_ptx_lines_are_cut_in_the_excerpt() -> None:
    ptx = LOOP.replace("bar.sync 0;", "wrong " + "x" * 500)
    with pytest.raises(PtxError) as caught:
        assemble(ptx, "sm_90a", "scale", assembler="nvjitlink")
    assert max(map(len, str(caught.value).split("\n"))) <= 110


@each_assembler
def test_an_unresolved_function_is_an_error(assembler: str) -> None:
    """nvJitLink may report success with an empty kernel in the cubin."""
    with pytest.raises(PtxError) as caught:
        assemble(CALLS_UNKNOWN, "sm_90a", "caller", assembler=assembler)
    assert "'unknown'" in caught.value.message


@each_assembler
def test_a_kernel_that_is_not_there(assembler: str) -> None:
    with pytest.raises(PtxError) as caught:
        assemble(LOOP, "sm_90a", "scales", assembler=assembler)
    assert str(caught.value) == "the PTX has no kernel 'scales': found 'scale'"


@each_assembler
@pytest.mark.parametrize("target", ["sm90a", "sm_90b", "90a", "compute_90a", "", "sm_99a"])
def test_an_unknown_target(assembler: str, target: str) -> None:
    with pytest.raises(TargetNotSupported) as caught:
        assemble(LOOP, target, "scale", assembler=assembler)
    assert isinstance(caught.value, ValueError)
    message, hint = str(caught.value).split("\n")
    assert message == f"unknown target: expected sm_NN, sm_NNa or sm_NNf, got {target!r}"
    assert hint.startswith("hint: known targets: sm_75, ")
    assert ", sm_90a, " in hint


@each_assembler
def test_a_target_that_cannot_run_the_ptx(assembler: str) -> None:
    with pytest.raises(PtxError) as caught:
        assemble(LOOP, "sm_80", "scale", assembler=assembler)
    assert caught.value.message.endswith(
        "could not assemble kernel 'scale' for sm_80: "
        "SM version specified by .target is higher than default SM version assumed"
    )


def test_an_unknown_assembler() -> None:
    with pytest.raises(ValueError) as caught:
        assemble(LOOP, "sm_90a", "scale", assembler="nvcc")
    assert str(caught.value) == (
        "unknown assembler: expected one of 'auto', 'ptxas', 'nvjitlink', got 'nvcc'"
    )


# --- Which assembler


@pytest.fixture
def fake_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ptxas found before any other; the test writes its script."""
    path = tmp_path / "nvidia" / "cu13" / "bin" / "ptxas"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


OLD = """#!/bin/sh
echo "ptxas kernel.ptx, line 1; fatal   : Unsupported .version 8.6; current version is '8.4'" >&2
exit 255
"""


def test_a_wheel_comes_before_path(fake_ptxas: Path) -> None:
    assert find_tool("ptxas") == str(fake_ptxas)


def test_auto_uses_nvjitlink_when_ptxas_is_too_old(fake_ptxas: Path) -> None:
    fake_ptxas.write_text(OLD)
    assert assemble(LOOP, "sm_90a", "scale").resources.assembler.startswith("nvJitLink ")
    with pytest.raises(PtxError) as caught:
        assemble(LOOP, "sm_90a", "scale", assembler="ptxas")
    assert str(caught.value) == (
        "ptxas could not assemble kernel 'scale' for sm_90a: "
        "Unsupported .version 8.6; current version is '8.4' (PTX line 1)\n"
        "note: PTX:\n"
        "  >     1 | .version 8.6\n"
        "        2 | .target sm_90a\n"
        "        3 | .address_size 64\n"
        "hint: a newer assembler: pip install --upgrade nvidia-cuda-nvcc"
    )


def test_an_assembler_that_crashes(fake_ptxas: Path) -> None:
    fake_ptxas.write_text("#!/bin/sh\necho out of luck\nkill -SEGV $$\n")
    with pytest.raises(PtxError) as caught:
        assemble(LOOP, "sm_90a", "scale")
    assert str(caught.value) == (
        "ptxas could not assemble kernel 'scale' for sm_90a: exit status -11: out of luck"
    )


def _without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Hide ptxas and, by name, modules."""
    for module in ("assemble", "toolkit"):
        monkeypatch.setattr(f"tiledsl.codegen.{module}.find_tool", lambda name: None)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_auto_uses_nvjitlink_when_there_is_no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch)
    assert assemble(LOOP, "sm_90a", "scale").resources.assembler.startswith("nvJitLink ")


def test_no_assembler_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "cuda.bindings")
    with pytest.raises(ToolNotFound) as caught:
        assemble(LOOP, "sm_90a", "scale")
    assert str(caught.value) == (
        "no assembler was found: expected ptxas or nvJitLink\nhint: pip install nvidia-cuda-nvcc"
    )
    with pytest.raises(ToolNotFound) as caught:
        assemble(LOOP, "sm_90a", "scale", assembler="nvjitlink")
    assert str(caught.value).endswith("\nhint: pip install cuda-bindings nvidia-nvjitlink")
    with pytest.raises(ToolNotFound) as caught:
        require_tool("ptxas")
    assert str(caught.value) == (
        "ptxas was not found: expected it in an installed nvidia-cuda-nvcc package, on PATH, or "
        "in a CUDA toolkit\nhint: pip install nvidia-cuda-nvcc"
    )


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = Path.cwd()
    assemble(LOOP, "sm_90a", "scale")
    assert list(tmp_path.iterdir()) == []
    assert Path.cwd() == before


# --- The log


PTXAS_LOG = """\
ptxas info    : (C7519) warpgroup.arrive is injected in around line 17 by compiler to allow use of registers in GMMA in function 'scale'
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'scale' in line 0
ptxas kernel.ptx, line 21; warning : Something odd
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 99 registers, used 9 barriers, 4 bytes smem
ptxas info    : Compile time = 3.000 ms
ptxas info    : Compiling entry function 'scale' for 'sm_90a'
ptxas info    : Function properties for scale
    24 bytes stack frame, 40 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 32 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 130.040 ms
ptxas info    : Function properties for helper
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
"""  # noqa: E501


def test_messages_of_a_log() -> None:
    arrive, serialized, odd = parse_messages(PTXAS_LOG, LOOP)
    assert (arrive.severity, arrive.code, arrive.ptx_line) == ("info", "C7519", 17)
    assert (arrive.file, arrive.line) == ("/home/u/gemm.py", 12)
    assert (serialized.code, serialized.ptx_line, serialized.line) == ("C7514", None, 10)
    helper = Loc("/home/u/helpers.py", 3, 8, call_site=Loc("/home/u/gemm.py", 12, 4))
    assert odd == PtxasMessage("warning", None, "Something odd", 21, helper)
    assert str(odd) == "Something odd (PTX line 21)"
    assert not odd.failed


def test_functions_of_a_log() -> None:
    functions = parse_functions(PTXAS_LOG)
    assert {name: use.entry for name, use in functions.items()} == {
        "other": True, "scale": True, "helper": False,
    }  # fmt: skip
    assert functions["scale"].compile_ms == 130.04
    assert functions["scale"].numbers == {
        "registers": 168, "barriers": 16, "stack": 32, "spill_stores": 40, "spill_loads": 56,
        "shared": 1024,
    }  # fmt: skip
    assert functions["other"].numbers["registers"] == 99


def test_functions_of_nvjitlinks_log() -> None:
    """The linker's barriers are those that count, its shared memory is not the kernel's own."""
    (use,) = parse_functions(
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 30 registers, used 0 barriers, 4096 bytes smem\n"
        "ptxas info    : Compile time = 3.786 ms\n"
        "info    : 0 bytes gmem\n"
        "info    : Function properties for 'k':\n"
        "info    : used 30 registers, used 4 barriers, 0 stack, 5120 bytes smem, 540 bytes "
        "cmem[0], 0 bytes lmem\n"
    ).values()
    assert use.numbers["barriers"] == 4
    assert use.numbers["shared"] == 4096


def test_a_message_names_its_function_in_several_ways() -> None:
    head = "ptxas info    : (C7510) Potential Performance Loss: "
    for tail in ("due to function call in the function 'scale'", "in function scale. Try more"):
        (message,) = parse_messages(head + tail, LOOP)
        assert message.line == 10, tail


def test_no_message_no_table() -> None:
    assert parse_messages("ptxas info    : 0 bytes gmem\n", "no PTX at all") == ()


# --- The line table


def test_line_table() -> None:
    table = line_table(LOOP)
    lines = LOOP.split("\n")

    def at(text: str) -> Loc | None:
        return table.lookup(1 + next(i for i, line in enumerate(lines) if text in line))

    assert table.lookup(1) is None
    assert at(".visible .entry") is None
    assert at("ld.param.u64") == Loc("/home/u/gemm.py", 10)
    assert at("mov.u32") == Loc("/home/u/gemm.py", 11, 4)
    site = Loc("/home/u/gemm.py", 12, 4)
    assert at("add.s64") == Loc("/home/u/helpers.py", 3, 8, call_site=site)
    assert at("bar.sync") == Loc("/home/u/gemm.py", 13, 4)
    assert at("bra again") == Loc("/home/u/gemm.py", 14, 4), "line 0 keeps the line before"
    assert table.lookup(10**6) == Loc("/home/u/gemm.py", 14, 4)
    assert table.function("scale") == Loc("/home/u/gemm.py", 10)
    assert table.function("absent") is None


def test_line_table_does_not_run_into_the_next_function() -> None:
    ptx = (
        ".func (.param .b32 o) f(.param .b32 a)\n{\n.loc 1 5 1\nret;\n}\n"
        '.visible .entry g()\n{\nret;\n.loc 1 9 3\n}\n.file 1 "a.py"\n'
    )
    table = line_table(ptx)
    assert table.lookup(4) == Loc("a.py", 5)
    assert [table.lookup(line) for line in (6, 7, 8)] == [None] * 3
    assert table.functions == {"f": Loc("a.py", 5), "g": Loc("a.py", 9, 2)}


def test_line_table_of_nested_inlining_and_of_a_name_that_is_not_ascii() -> None:
    ptx = (
        ".entry k()\n"
        ".loc 1 10 1\n"
        ".loc 2 20 1, function_name $L0, inlined_at 1 10 1\n"
        ".loc 2 30 1, function_name $L0+8, inlined_at 2 20 1\n"
        "ret;\n"
        r'.file 1 "/home/j\303\274rg/\344\270\255.py"' + '\n.file 2 "h.py"\n'
    )
    outer = Loc("/home/jürg/中.py", 10)
    assert line_table(ptx).lookup(5) == Loc("h.py", 30, call_site=Loc("h.py", 20, call_site=outer))


def test_line_table_of_ptx_without_locations() -> None:
    assert line_table(".entry k()\n{\nret;\n}\n").lookup(3) is None
    assert line_table("") == LineTable()
