"""``python -m tiledsl run-ptx``: what it computes, what it says, and what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.ptx_machine.test_run_ptx import BY_VALUE, HEAD, LOAD, SCALE
from tiledsl.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.ptx").write_text(SCALE)
    (tmp_path / "load.ptx").write_text(HEAD + LOAD.format(**BY_VALUE, x=4, y=3, nbytes=256))
    return tmp_path


SCALED = ["run-ptx", "scale.ptx", "--grid", "2", "--block", "32", "--arg", "x=x.npy",
          "--arg", "y=nan:64:f32", "--arg", "2.0", "--arg", "64"]  # fmt: skip


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_arrays_from_files_and_to_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng().standard_normal(64, np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "want.npy", 2 * x)
    before = sorted(folder.iterdir())
    assert main([*SCALED, "--expect", "y=want.npy"]) == 0
    assert said(capsys) == "kernel scale: 34 instructions of warps\nlate, seed 0: ok\n"
    assert sorted(folder.iterdir()) == before, "nothing is written that nobody asked for"
    assert main([*SCALED, "--save", "y=y.npy", "--save", "y=half.npy:f16"]) == 0
    assert np.array_equal(np.load("y.npy"), 2 * x)
    assert np.array_equal(np.load("half.npy"), (2 * x).astype(np.float16))


def test_other_results_than_expected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(64, dtype=np.float32)
    want = 2 * x
    want[5] += 0.25
    np.save(folder / "x.npy", x)
    np.save(folder / "want.npy", want)
    assert main([*SCALED, "--expect", "y=want.npy"]) == 1
    assert (
        "late, seed 0: y: 1 of 64 elements are wrong, first (5,): expected 10.25, got 10.0, largest"
        " error 0.25\n" in said(capsys)
    )
    assert main([*SCALED, "--expect", "y=want.npy", "--tolerance", "0.02"]) == 1
    assert main([*SCALED, "--expect", "y=want.npy", "--tolerance", "0.03"]) == 0


def test_schedules_policies_and_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "x.npy", np.arange(64, dtype=np.float32))
    assert main([*SCALED, "--policy", "all", "--schedules", "3", "--seed", "5", "--profile"]) == 0
    out = said(capsys)
    for policy in ("eager", "late", "random", "pct"):
        for seed in (5, 6, 7):
            assert f"{policy}, seed {seed}: ok\n" in out
    assert "memory, bytes moved by threads" in out and "mul.rn.f32" in out


def test_results_that_depend_on_the_schedule(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks race for one word: which comes last differs from seed to seed."""
    (folder / "race.ptx").write_text(
        f"{HEAD}.entry race(.param .u64 y)\n.reqntid 1\n{{ .reg .b32 %r; .reg .b64 %d;\n"
        "ld.param.u64 %d, [y]; mov.u32 %r, %ctaid.x; st.global.u32 [%d], %r; ret; }\n"
    )
    command = ["run-ptx", "race.ptx", "--grid", "64", "--arg", "y=zeros:1:u32"]
    assert main([*command, "--policy", "random", "--schedules", "4"]) == 1
    assert "y: 1 of 1 elements differ from the first schedule's" in said(capsys)
    assert main([*command, "--policy", "eager", "--schedules", "4"]) == 0


def test_tensor_maps(folder: Path) -> None:
    command = ["run-ptx", "load.ptx", "--block", "64", "--array", "x=arange:16x8:s32"]
    assert main([*command, "--arg", "tma(x, box=8x8)", "--arg", "y=zeros:8x8:s32",
                 "--save", "y=y.npy"]) == 0  # fmt: skip
    wanted = np.zeros((8, 8), np.int32)
    wanted[:, :4] = np.arange(128).reshape(16, 8)[3:11, 4:]
    assert np.array_equal(np.load("y.npy"), wanted)


def test_types_that_numpy_does_not_know(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry that copies 64 bytes: bfloat16 goes as raw bytes, and is read again by its type."""
    (folder / "copy.ptx").write_text(
        f"{HEAD}.entry copy(.param .u64 x, .param .u64 y)\n.reqntid 16\n"
        "{ .reg .b32 %r<3>; .reg .b64 %d<5>;\n"
        "ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;\n"
        "ld.global.u32 %r2, [%d1]; st.global.u32 [%d2], %r2; ret; }\n"
    )
    command = ["run-ptx", "copy.ptx", "--arg", "a=randn:32:bf16", "--arg", "c=nan:32:bf16"]
    assert main([*command, "--save", "c=raw.npy", "--save", "c=c.npy:f32"]) == 0
    raw = np.load("raw.npy").view(ml_dtypes.bfloat16)
    assert np.array_equal(raw.astype(np.float32), np.load("c.npy"))
    assert np.isfinite(np.load("c.npy")).all() and np.ptp(np.load("c.npy")) > 0
    assert main([*command, "--expect", "c=raw.npy"]) == 0
    assert main([*command, "--expect", "c=c.npy"]) == 0
    assert main([*command, "--data-seed", "1", "--expect", "c=raw.npy"]) == 1
    again = ["run-ptx", "copy.ptx", "--arg", "npy:raw.npy:bf16", "--arg", "c=zeros:32:bf16"]
    assert main([*again, "--expect", "c=raw.npy"]) == 0
    capsys.readouterr()
    assert main([*again[:2], "--arg", "raw.npy", "--arg", "c=zeros:32:bf16"]) == 2
    assert "does not say its type, only 2 bytes an element" in said(capsys)


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run-ptx", "load.ptx", "--list"]) == 0
    assert said(capsys) == "load(.align 64 .b8 m[128], .u64 y)\n"


def test_faults_and_wrong_ptx(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "x.npy", np.zeros(60, np.float32))
    assert main([*SCALED, "--save", "y=y.npy"]) == 1
    assert "error: MachineFault: out of bounds: an access of 4 bytes" in said(capsys)
    assert not (folder / "y.npy").exists()
    (folder / "bad.ptx").write_text(SCALE.replace("mul.rn.f32", "mul.rq.f32"))
    assert main(["run-ptx", "bad.ptx", *SCALED[2:]]) == 1
    assert "error: DecodeError: PTX line 16: the machine does not know" in said(capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.ptx"], "cannot read 'none.ptx' as PTX"),
        (["scale.ptx", "--grid", "2y"], "--grid: expected integers such as 128x64, got '2y'"),
        (["scale.ptx", "--arg", "x=randn:8"], "expected randn:SHAPE:TYPE"),
        (["scale.ptx", "--arg", "x=randn:8:f31"], "expected a type, one of s8"),
        (["scale.ptx", "--arg", "x=randn:-8:f32"], "expected extents from 0"),
        (["scale.ptx", "--arg", "x=nan:8:s32"], "s32 has no NaN"),
        (["scale.ptx", "--arg", "x=full:8:s32"], "full takes 1 numbers in brackets, got 0"),
        (["scale.ptx", "--arg", "x=none.npy"], "cannot read 'none.npy' as an array"),
        (["scale.ptx", "--arg", "z"], "or the name of an array, got 'z'"),
        (["scale.ptx", "--arg", "u8:256"], "expected an integer from 0 to 255, got 256"),
        (["scale.ptx", "--arg", "1.2.3"], "expected a number, got '1.2.3'"),
        (["scale.ptx", "--arg", "tma(z, box=8)"], "expected an array as the first word of tma"),
        (["scale.ptx", "--arg", "x=zeros:8x8:f32", "--arg", "tma(x)"], "expected a box in tma"),
        (["scale.ptx", "--arg", "x=zeros:8x8:f32", "--arg", "tma(x, bax=8)"], "got 'bax=8'"),
        (["scale.ptx", "--arg", "x=zeros:8x8:f32", "--arg", "tma(x, box=8x8, lower=1)"],
         "expected both of lower and upper"),
        (["scale.ptx", "--arg", "f(1)"], "expected tma(...) or struct(...), got f(...)"),
        (["scale.ptx", "--array", "zeros:8:f32"], "expected NAME=ARRAY"),
        (["scale.ptx", "--array", "x=5"], "expected FILL:SHAPE:TYPE"),
        (["scale.ptx", "--array", "x=ones:1:f32", "--arg", "x=ones:1:f32"], "two arrays named 'x'"),
        (["scale.ptx", "--save", "y=y.npy"], "there is no array 'y'; there are: none"),
        (["scale.ptx", "--arg", "x=ones:1:f32", "--save", "x=y.txt"], "expected NAME=FILE.npy"),
        (["scale.ptx", "--arg", "x=ones:1:f32", "--save", "x=no/y.npy"], "there is no folder"),
        (["scale.ptx", "--arg", "x=ones:1:f32", "--expect", "x=no.npy"], "cannot read 'no.npy'"),
        (["scale.ptx", "--arg", "y=ones:1:f32"],
         "--arg y=...: expected arguments in the order of the parameters (x, y, f, n), got it as"),
        (["scale.ptx", "--arg", "randint(5,1):8:s32"], "there is no such array"),
        (["scale.ptx", "--arg", "zeros:99999999x99999999:f64"], "there is no such array"),
        (["scale.ptx", "--block", "32"], "expected 4 arguments, one for each parameter, got 0"),
        (["scale.ptx", "--block", "2000"], "block: expected 1 to 1024 along x, got 2000"),
        (["scale.ptx"], "expected a block, for the PTX has no .reqntid that says it"),
        (["scale.ptx", "--block", "32", "--seed", "-1"], "seed: expected a number from 0"),
        (["scale.ptx", "--schedules", "0"], "--schedules: expected a number from 1, got 0"),
        (["scale.ptx", "--tolerance", "-1"], "--tolerance: expected a number from 0"),
        (["scale.ptx", "--data-seed", "-1"], "--data-seed: expected a number from 0"),
    ],
)  # fmt: skip
def test_misuse(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    before = sorted(folder.iterdir())
    assert main(["run-ptx", *words]) == 2
    out = said(capsys)
    assert out.startswith("error: ") and message in out
    assert sorted(folder.iterdir()) == before


def test_pickles_are_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "evil.npy", np.array([{}], object), allow_pickle=True)
    assert main(["run-ptx", "scale.ptx", "--arg", "evil.npy"]) == 2
    assert "cannot read 'evil.npy' as an array" in said(capsys)


def test_expected_of_another_shape(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folder / "x.npy", np.zeros(64, np.float32))
    np.save(folder / "want.npy", np.zeros((8, 8), np.float32))
    assert main([*SCALED, "--expect", "y=want.npy"]) == 2
    assert "expected shape (64,), as y has, got (8, 8)" in said(capsys)


def test_as_a_program(folder: Path) -> None:
    """``python -m tiledsl``, with the PTX on standard input."""
    command = [sys.executable, "-m", "tiledsl", "run-ptx", "-", *SCALED[2:]]
    np.save(folder / "x.npy", np.ones(64, np.float32))
    done = subprocess.run(command, input=SCALE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("late, seed 0: ok\n")
    none = subprocess.run([sys.executable, "-m", "tiledsl"], capture_output=True, check=False)
    assert none.returncode == 2
