"""A kernel of every kind of parameter, and arguments for it."""

from __future__ import annotations

from typing import Any

from tests.runtime.fake_cuda import FakeDriver
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.runtime.library import LoadedKernel

NAMES = ("a", "c", "eps")
LOAD = TensorMapSpec(0, dtypes.bfloat16, (64, 64), 128, "load")
STORE = TensorMapSpec(1, dtypes.float32, (64, 32), 128, "store")
SLOTS = [
    ParamSlot("tensormap", 0, spec=LOAD),
    ParamSlot("scalar", 2, dtype=dtypes.float32),
    ParamSlot("pointer", 1),
    ParamSlot("tensormap", 1, spec=STORE),
    ParamSlot("dim", 0, axis=1),
    ParamSlot("stride", 1, axis=0),
]
SIZES = [128, 4, 8, 128, 4, 8]


def make_kernel(**changes: Any) -> LoadedKernel:
    given = {"threads": 384, "shared_bytes": 200000, "target": "sm_90a"} | changes
    return LoadedKernel(b"cubin", "gemm", **given)


def make_args(torch: Any, device: int = 0, offset: int = 0) -> list[Any]:
    a = torch.Tensor(FakeDriver.address(device, offset), (100, 72), torch.bfloat16, device=device)
    c = torch.Tensor(
        FakeDriver.address(device, 1 << 20), (40, 48), torch.float32, device=device, strides=(52, 1)
    )
    return [a, c, 1e-5]
