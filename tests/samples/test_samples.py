"""Every sample runs, from a process of its own, in the emulator and on the PTX machine."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.places import Emulator, Machine

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples"

# Scripts with the arguments to run them with, and what they must print.
RUNS: list[tuple[str, list[str], str]] = [
    ("gemm.py", ["--m", "200", "--n", "264", "--k", "328"], r"gemm: 200 x 264 x 328, bfloat16"),
    ("gemm.py", ["--k", "0", "--m", "8", "--n", "8"], r"largest error  0 "),
    ("gemm.py", ["--dtype", "float16", "--out-dtype", "float32", "--m", "129"], r"-> float32"),
    ("gemm_flat.py", ["--m", "130", "--n", "72", "--k", "1000"], r"gemm_flat: 130 x 72 x 1000"),
    ("gemm_cluster.py", ["--m", "300", "--n", "264", "--k", "328"], r"gemm_cluster: 300 x 264"),
    ("gemm_cluster.py", ["--m", "100", "--n", "600", "--k", "0"], r"largest error  0 "),
    ("gemm_pingpong.py", ["--m", "700", "--n", "264", "--k", "200"], r"gemm_pingpong: 700 x 264"),
    ("gemm_pingpong.py", ["--m", "8", "--n", "8", "--dtype", "float16"], r"float16 -> float16"),
    ("conv_im2col.py", [], r"\(2, 14, 14, 64\) \* \(128, 3, 3, 64\) -> \(2, 14, 14, 128\)"),
    (
        "conv_im2col.py",
        ["--stride", "2", "--padding", "0", "--height", "9", "--width", "13", "--images", "3"],
        r"-> \(3, 4, 6, 128\)",
    ),
    (
        "conv_im2col.py",
        ["--filter", "5", "--padding", "2", "--stride", "3", "--in-channels", "72"],
        r"stride 3, padding 2",
    ),
    ("quickstart.py", [], r"largest relative error"),
]
SCRIPTS = list(dict.fromkeys(script for script, _, _ in RUNS))
# Imported by the samples; no script.
NOT_SCRIPTS = {"common.py"}

DUMPS = {
    "ir": r"pipeline\.acquire_producer",
    "protocol": r"mbarrier\.wait",
    "llvm": r"define .*ptx_kernel",
    "ptx": r"wgmma\.mma_async",
    "sass": r"HGMMA",
}


def run(script: str, *arguments: str) -> str:
    """What the script prints; fails with its whole output unless it ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def refused(script: str, *arguments: str) -> str:
    """What the script says on standard error when it refuses its arguments."""
    command = [sys.executable, "-W", "error", str(SAMPLES / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and not done.stdout
    return done.stderr


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A sample as a module, without running its ``main``."""
    monkeypatch.syspath_prepend(str(SAMPLES))
    return import_module(name)


def test_every_sample_is_run() -> None:
    found = {path.name for path in SAMPLES.glob("*.py")}
    listed = {script for script, _, _ in RUNS} | NOT_SCRIPTS
    assert found == listed, "list the sample in RUNS, or in NOT_SCRIPTS if it is no script"


@pytest.mark.parametrize(
    ("script", "arguments", "printed"), RUNS, ids=lambda x: x if isinstance(x, str) else None
)
def test_sample_runs(place: Emulator, script: str, arguments: list[str], printed: str) -> None:
    """As a user runs it: the place is in the environment (``TILEDSL_BACKEND``)."""
    emulated = ["--device", "emulator"] if script != "quickstart.py" else []
    output = run(script, *arguments, *emulated)
    assert re.search(printed, output), output
    if emulated:
        where = "PTX machine" if isinstance(place, Machine) else "emulator"
        assert f"ran on         {where}" in output


@pytest.mark.parametrize("what", DUMPS)
@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "quickstart.py"])
def test_sample_dumps(script: str, what: str) -> None:
    assert re.search(DUMPS[what], run(script, "--dump", what))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--n", "7"], "argument c: expected a stride that is a multiple of 16 bytes"),
        (["--k", "63"], "argument a: expected a stride that is a multiple of 16 bytes"),
        (["--m", "-1"], "argument --m: expected a number of at least 0, got -1"),
        (["--m", "many"], "argument --m: invalid integer value: 'many'"),
        (["--seed", "-3"], "argument --seed: expected a number of at least 0, got -3"),
        (["--dtype", "float32"], "argument --dtype: invalid choice: 'float32'"),
        (["--dump", "cuda"], "argument --dump: invalid choice: 'cuda'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], said: str) -> None:
    stderr = refused("gemm.py", "--device", "emulator", *arguments)
    assert said in stderr
    assert "Traceback" not in stderr


def test_a_wrong_result_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that leaves one element out fails the check and the exit status."""
    common = load("common", monkeypatch)
    gemm = load("gemm", monkeypatch).gemm

    def incomplete(a: Any, b: Any, c: Any) -> None:
        gemm(a, b, c)
        c[5, 7] = float("nan")

    arguments = ["--device", "emulator", "--m", "64", "--n", "64", "--k", "64"]
    assert common.run_gemm(incomplete, "", arguments) == 1
    assert "WRONG" in capsys.readouterr().out


def normalised(ptx: str, name: str) -> list[str]:
    """PTX lines without what names the source: the kernel, files, lines, labels of scopes."""
    lines = []
    for line in ptx.replace(name, "KERNEL").splitlines():
        line = re.sub(r"//.*", "", line).rstrip()
        if line.strip() and not re.match(r"\s*\.(loc|file)\b|\$L__tmp", line):
            lines.append(line)
    return lines


def test_both_styles_give_the_same_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiledsl as td

    spec = td.spec((4096, 4096), td.bfloat16)
    ptx = {}
    for name in ("gemm", "gemm_flat"):
        kernel = getattr(load(name, monkeypatch), name)
        ptx[name] = kernel.compile(spec, spec, spec).ptx
    both = [normalised(text, name) for name, text in ptx.items()]
    assert any("wgmma" in line for line in both[0])
    assert both[0] == both[1]
