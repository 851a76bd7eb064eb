"""Disassembly: instructions, loops, and the loop that matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen.ptx_kernels import LOOP, PIPELINED, SERIALIZED, spilling
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.sass import SassInstruction, SassReport, sass
from tiledsl.codegen.toolkit import ToolNotFound
from tiledsl.errors import TileError

# What nvdisasm prints of a consumer role, shortened: a loop over tiles (20) around a loop over k
# (60); ptxas has put the spinning half of the wait (f0) behind everything; a conditional exit;
# and a reconvergence that jumps out of line (BSYNC at 120 goes on at b0).
OUTLINED = """\
	.target	sm_90a

//--------------------- .text.gemm                --------------------------
	.section	.text.gemm,"ax",@progbits
        .other          gemm,@"STO_CUDA_ENTRY STV_DEFAULT"
gemm:
.text.gemm:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/home/u/gemm.py", line 50
        /*0010*/               @P0 EXIT ;
.L_x_1:
        /*0020*/                   UMOV UR4, URZ ;
        /*0030*/              @!P1 EXIT P0 ;
        /*0040*/                   IADD3 R5, R5, 0x1, RZ ;
        /*0050*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR12], RZ, !UPT, gsb0 ;
.L_x_2:
	//## File "/home/u/gemm.py", line 52
        /*0060*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R12+UR8+0x38000], R5 ;
        /*0070*/              @!P2 BRA `(.L_x_5) ;
.L_x_3:
        /*0080*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR12], R24 ;
        /*0090*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;
        /*00a0*/                   BSSY B0, `(.L_x_4) ;
        /*00a8*/               @P3 BRA `(.L_x_6) ;
        /*00ac*/                   BSYNC B0 ;
.L_x_4:
	//## File "/home/u/gemm.py", line 54
        /*00b0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*00c0*/               @P4 BRA `(.L_x_2) ;
        /*00d0*/                   STG.E desc[UR4][R4.64], R24 ;
        /*00e0*/                   BRA `(.L_x_1) ;
.L_x_5:
        /*00f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R12+UR8+0x38000], R5 ;
        /*0100*/              @!P2 BRA `(.L_x_5) ;
        /*0110*/                   BRA `(.L_x_3) ;
.L_x_6:
        /*0118*/                   @UP0 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0120*/                   BSYNC B0 ;
.L_x_7:
        /*0130*/                   BRA `(.L_x_7);
        /*0140*/                   NOP;
.L_x_8:

//--------------------- .nv.shared.gemm           --------------------------
"""


@pytest.fixture
def outlined() -> SassReport:
    return SassReport(OUTLINED)


def offsets(instructions: tuple[SassInstruction, ...]) -> list[int]:
    return [instruction.offset for instruction in instructions]


def test_instructions(outlined: SassReport) -> None:
    assert outlined.kernels == ("gemm",)
    instructions = outlined.instructions("gemm")
    assert instructions == outlined.instructions()
    assert len(instructions) == 24
    by_offset = {instruction.offset: instruction for instruction in instructions}
    assert by_offset[0] == SassInstruction(
        0, "", "LDC", ("R1", "c[0x0][0x28]"), "LDC R1, c[0x0][0x28]"
    )
    assert by_offset[0x30] == SassInstruction(
        0x30, "!P1", "EXIT", ("P0",), "@!P1 EXIT P0", "/home/u/gemm.py", 50
    )
    assert by_offset[0x50].operands == ("R24", "gdesc[UR12]", "RZ", "!UPT", "gsb0")
    assert by_offset[0x118].predicate == "UP0"
    assert by_offset[0x118].opcode == "UIADD3"
    assert by_offset[0x140] == SassInstruction(0x140, "", "NOP", (), "NOP", "/home/u/gemm.py", 54)
    assert str(by_offset[0xB0]) == ("/*00b0*/ WARPGROUP.DEPBAR.LE gsb0, 0x1  // /home/u/gemm.py:54")


def test_loops_follow_control_flow_and_not_the_layout(outlined: SassReport) -> None:
    tiles, k, spin = outlined.loops()
    assert [(loop.header, loop.depth) for loop in (tiles, k, spin)] == [
        (0x20, 1), (0x60, 2), (0xF0, 3),
    ]  # fmt: skip
    assert offsets(spin.instructions) == [0xF0, 0x100]
    # fmt: off
    assert offsets(k.instructions) == [
        0x60, 0x70, 0x80, 0x90, 0xA0, 0xA8, 0xAC, 0xB0, 0xC0, 0xF0, 0x100, 0x110, 0x118, 0x120,
    ]
    assert offsets(tiles.instructions) == [
        0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xA0, 0xA8, 0xAC, 0xB0, 0xC0, 0xD0, 0xE0,
        0xF0, 0x100, 0x110, 0x118, 0x120,
    ]
    # fmt: on


def test_the_hot_loop_is_the_innermost_with_matrix_instructions(outlined: SassReport) -> None:
    loop = outlined.hot_loop()
    assert loop.header == 0x60
    assert (loop.count("HGMMA"), loop.matrix_count()) == (2, 2)
    assert outlined.count("HGMMA") == 3
    assert loop.count("SYNCS") == 2
    assert loop.count("SYNCS.PHASECHK") == 2
    assert loop.count("SYNC") == 0, "a prefix counts at a dot only"
    assert str(loop).startswith("/*0060*/ SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R12+UR8+0x38000], R5")


def test_without_matrix_instructions_the_deepest_loop_is_hot() -> None:
    assert SassReport(OUTLINED.replace("HGMMA", "FFMA")).hot_loop().header == 0xF0


def test_of_two_roles_the_one_with_more_matrix_instructions_is_hot() -> None:
    def loop(at: int, count: int) -> str:
        body = "".join(f"        /*{at + i:04x}*/   HGMMA R0, R1 ;\n" for i in range(count))
        return f".L_{at}:\n{body}        /*{at + count:04x}*/   @P0 BRA `(.L_{at}) ;\n"

    header = "//------- .text.k  ------\n"
    text = header + loop(0x100, 2) + loop(0x200, 4) + "        /*0300*/   EXIT ;\n"
    report = SassReport(text)
    assert [found.matrix_count() for found in report.loops()] == [2, 4]
    assert report.hot_loop().header == 0x200


def test_a_kernel_without_loop() -> None:
    padding = ".L_x:\n        /*0010*/   BRA `(.L_x);\n"  # runs after no instruction
    report = SassReport("//------- .text.k  ------\n        /*0000*/   EXIT ;\n" + padding)
    assert report.loops() == []
    with pytest.raises(LookupError) as caught:
        report.hot_loop()
    assert str(caught.value) == "no loop in kernel 'k'"


def test_the_kernel_must_be_named_when_there_are_several() -> None:
    text = "//------- .text.{0} ------\n        /*0000*/   EXIT ;\n"
    report = SassReport(text.format("one") + text.format("two"))
    assert report.kernels == ("one", "two")
    assert report.count("EXIT", "two") == 1
    for name, said in ((None, "None"), ("three", "'three'")):
        with pytest.raises(KeyError) as caught:
            report.instructions(name)
        assert caught.value.args == (
            f"expected the name of a kernel, got {said}: found 'one', 'two'",
        )


def test_an_empty_text() -> None:
    assert SassReport("").kernels == ()


# --- With nvdisasm


def test_the_users_lines_are_in_the_disassembly() -> None:
    report = SassReport.of(assemble(LOOP, "sm_90a", "scale").cubin)
    assert report.kernels == ("scale",)
    loop = report.hot_loop()
    (add,) = (i for i in loop.instructions if i.is_a("FADD"))
    assert (add.file, add.line) == ("/home/u/helpers.py", 3)
    (barrier,) = (i for i in loop.instructions if i.is_a("BAR"))
    assert (barrier.file, barrier.line) == ("/home/u/gemm.py", 13)


def test_a_pipelined_loop() -> None:
    loop = SassReport.of(assemble(PIPELINED, "sm_90a", "gemm").cubin).hot_loop()
    assert loop.count("HGMMA") == 2
    assert loop.count("WARPGROUP.ARRIVE") == 1
    assert [loop.count(opcode) for opcode in ("LDL", "STL", "WARPSYNC", "STG")] == [0] * 4


def test_a_serialised_loop_shows() -> None:
    """What the assertions on hot loops are there to catch."""
    loop = SassReport.of(assemble(SERIALIZED, "sm_90a", "gemm").cubin).hot_loop()
    assert loop.count("WARPGROUP.ARRIVE") == 2
    assert loop.count("WARPGROUP.DEPBAR") >= 2
    assert loop.count("FADD") == 1


def test_spills_show() -> None:
    report = SassReport.of(assemble(spilling(), "sm_90a", "spill").cubin)
    assert report.count("STL") >= 1
    assert report.count("LDL") >= 1


def test_what_is_not_a_cubin() -> None:
    with pytest.raises(TileError) as caught:
        sass(b"not a cubin")
    assert str(caught.value).startswith("nvdisasm could not disassemble the cubin: nvdisasm ")


def test_no_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiledsl.codegen.toolkit.find_tool", lambda name: None)
    with pytest.raises(ToolNotFound) as caught:
        sass(b"")
    assert str(caught.value) == (
        "nvdisasm was not found: expected it in an installed nvidia-cuda-nvdisasm package, on "
        "PATH, or in a CUDA toolkit\nhint: pip install nvidia-cuda-nvdisasm"
    )


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubin = assemble(LOOP, "sm_90a", "scale").cubin
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sass(cubin)
    assert list(tmp_path.iterdir()) == []
