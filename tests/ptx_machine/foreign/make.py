"""Makes the PTX of this folder anew: ``python make.py [numba_cuda|nvcc]``.

numba_cuda/*.ptx needs ``pip install 'numba-cuda[cu13]'`` (it brings NVVM, NVRTC and libdevice; no
GPU, no driver); nvcc/*.ptx needs the CUDA toolkit's nvcc. Tests need neither: they run what lies
here.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NVCC = ("-arch=sm_90a", "-std=c++17", "-O3", "-lineinfo", "-ptx")


def numba_cuda() -> None:
    """Compile the kernels of numba_cuda/kernels.py."""
    cuda: Any = import_module("numba.cuda")
    dispatcher: Any = import_module("numba.cuda.dispatcher")

    # What a device function is compiled for: the current device, which there need not be.
    target = SimpleNamespace(compute_capability=(9, 0))
    dispatcher.get_current_device = lambda: target
    source = HERE / "numba_cuda" / "kernels.py"
    names: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(source.read_text(), str(source), "exec"), names)
    compilers = ", ".join(
        f"{name} {version(name)}" for name in ("numba-cuda", "numba", "nvidia-nvvm")
    )
    for name, (function, signature) in names["KERNELS"].items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text, _ = cuda.compile(
                function, signature, cc=(9, 0), device=False, abi="numba", output="ptx",
                lineinfo=True, opt=name not in names["UNOPTIMISED"],
            )  # fmt: skip
        # Numba's names are as long as its types; the entry's is part of most others.
        entry = re.search(r"\.entry (\w+)", text)
        assert entry is not None
        text = text.replace(entry[1], name).replace(entry[1].removeprefix("_ZN"), name)
        text = re.sub(r'"/[^"]*/(?=numba_cuda/numba/)', '"', text)
        write(source.with_name(f"{name}.ptx"), (source,), compilers, text)


def nvcc() -> None:
    """Compile nvcc/*.cu."""
    told = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"V[\d.]+", told)
    for source in sorted((HERE / "nvcc").glob("*.cu")):
        target = source.with_suffix(".ptx")
        relative = source.relative_to(ROOT)
        command = ["nvcc", *NVCC, str(relative), "-o", str(target)]
        subprocess.run(command, cwd=ROOT, check=True)
        by = f"nvcc {release and release[0]} {' '.join(NVCC)}"
        write(target, (source, source.with_name("device.cuh")), by, target.read_text())


def digest(*sources: Path) -> str:
    """Of the sources: PTX that was not made anew after a change is noticed by a test."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def write(target: Path, sources: tuple[Path, ...], by: str, text: str) -> None:
    """A file of PTX that says what it was made from, and names no folder of this machine."""
    text = text.replace(f"{ROOT}/", "").rstrip("\0\n ")
    target.write_text(f"// From {sources[0].name} ({digest(*sources)}), by {by}\n{text}\n")
    print(target.relative_to(ROOT), len(text))


if __name__ == "__main__":
    for made in sys.argv[1:] or ("numba_cuda", "nvcc"):
        {"numba_cuda": numba_cuda, "nvcc": nvcc}[made]()
