"""From the user's arguments to the bytes that the kernel gets, on the right stream and device."""

from __future__ import annotations

import gc
import random
import struct
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from tests.runtime.fake_cuda import FakeArray, FakeDriver
from tests.runtime.fake_frameworks import Producer
from tests.runtime.launching import LOAD, NAMES, SLOTS, make_args, make_kernel
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.errors import InternalError, InvalidValue, LaunchError, TypeMismatch
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.device import device
from tiledsl.runtime.grid import blocks, launch_grid
from tiledsl.runtime.launch import Launcher
from tiledsl.runtime.parameters import ParameterBlock, pack_parameters

# --- packing


def test_packing_every_kind_of_parameter() -> None:
    rows, pitch = random.randrange(1, 1 << 31), random.randrange(1 << 33, 1 << 40)
    arrays = {
        0: ArrayArg(4096, (rows, 64), (64, 1), dtypes.bfloat16, 0),
        2: ArrayArg(8192, (3,), (-pitch,), dtypes.int8, 0),
    }
    number = random.uniform(-1, 1)
    slots = [
        ParamSlot("dim", 0, axis=0),
        ParamSlot("tensormap", 0, spec=LOAD),
        ParamSlot("stride", 2, axis=0),
        ParamSlot("scalar", 1, dtype=dtypes.bool_),
        ParamSlot("pointer", 2),
        ParamSlot("scalar", 3, dtype=dtypes.float64),
    ]
    asked: list[Any] = []

    def encode(array: ArrayArg, spec: TensorMapSpec) -> bytes:
        asked.append((array, spec))
        return bytes(128)

    packed = pack_parameters(slots, "xyzw", arrays, [None, True, None, number], encode)
    assert packed == [
        struct.pack("<i", rows),
        bytes(128),
        struct.pack("<q", -pitch),
        b"\1",
        struct.pack("<Q", 8192),
        struct.pack("<d", number),
    ]
    assert asked == [(arrays[0], LOAD)]


def test_packing_names_the_argument() -> None:
    array = ArrayArg(4096, (64, 65), (65, 1), dtypes.bfloat16, 0)
    with pytest.raises(LaunchError, match=r"argument query: expected a stride that is a multiple"):
        pack_parameters(SLOTS[:1], ["query"], {0: array}, [None], lambda *_: bytes(128))
    with pytest.raises(TypeMismatch, match=r"argument query: expected an array, got 3"):
        pack_parameters(SLOTS[:1], ["query"], {}, [3])
    slot = ParamSlot("scalar", 0, dtype=dtypes.int32)
    with pytest.raises(TypeMismatch, match=r"argument n: expected a scalar of type int32, got a n"):
        pack_parameters([slot], ["n"], {}, [np.zeros(3)])
    with pytest.raises(InternalError, match="unknown kind of machine parameter: 'texture'"):
        pack_parameters([ParamSlot("texture", 0)], ["a"], {0: array}, [None])


def test_the_block_is_aligned_for_tensor_maps(cuda: FakeDriver) -> None:
    import ctypes

    for _ in range(20):
        packed = [random.randbytes(random.choice([1, 4, 8, 128])) for _ in range(9)]
        block = ParameterBlock(packed)
        pointers = (ctypes.c_void_p * 9).from_address(block.address)
        assert [
            ctypes.string_at(p, len(d)) for p, d in zip(pointers, packed, strict=True)
        ] == packed
        assert all(pointer % 64 == 0 for pointer in pointers)
    ParameterBlock([])  # a kernel without parameters


# --- launching


def test_what_the_kernel_gets(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    torch.streams[0] = 4711
    launcher(make_args(torch), (3, 2))
    (launched,) = cuda.launches
    assert (launched.grid, launched.block, launched.shared) == ((3, 2, 1), (384, 1, 1), 200000)
    assert (launched.stream, launched.context) == (4711, 100)
    assert launched.params == [
        cuda.map_bytes(0),
        struct.pack("<f", 1e-5),
        struct.pack("<Q", cuda.address(0, 1 << 20)),
        cuda.map_bytes(1),
        struct.pack("<i", 72),
        struct.pack("<q", 52),
    ]
    assert [entry["dims"] for entry in cuda.maps] == [[72, 100], [48, 40]]


def test_launching_again_does_nothing_but_launch(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    launcher(make_args(torch))
    before = len(cuda.log)
    for _ in range(3):
        launcher(make_args(torch))  # other objects, same memory
    assert cuda.log[before:] == [("launch", 0)] * 3
    assert len(cuda.maps) == 2


def test_what_changes_is_passed(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    args = make_args(torch)
    launcher(args)
    for change in (make_args(torch, offset=64), [*args[:2], -0.0], [*args[:2], 0.0]):
        launcher(change)
        launcher(args)
    first, moved, again, minus, _, plus, _ = (launched.params for launched in cuda.launches)
    assert first == again != moved
    assert cuda.maps[2]["pointer"] == cuda.maps[0]["pointer"] + 64
    assert minus[1] == struct.pack("<f", -0.0) != plus[1] == struct.pack("<f", 0.0)


def test_the_cache_is_bounded(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    args = make_args(torch)
    for number in range(1200):
        launcher([*args[:2], float(number)])
    (reading,) = launcher._readings.values()
    assert len(reading.bound) <= 512
    got = [struct.unpack("<f", launched.params[1])[0] for launched in cuda.launches]
    assert got == [float(number) for number in range(1200)]


@pytest.mark.parametrize("protocol", ["cuda_array_interface", "dlpack"])
def test_launched_arrays_can_be_freed(cuda: FakeDriver, protocol: str) -> None:
    """What is kept of a launch, to be found again, does not hold the user's memory."""
    made: Any
    if protocol == "dlpack":
        made = Producer(FakeDriver.address(0), (40,), 2, 32)
    else:
        made = FakeArray(FakeDriver.address(0), (40,), "<f4")
    cuda.parameter_sizes = [8]
    launcher = Launcher(make_kernel(), [ParamSlot("pointer", 0)], ["a"])
    launcher([made])
    assert len(cuda.launches) == 1 and launcher.launch_again([made])
    alive = weakref.ref(made)
    del made
    gc.collect()
    assert alive() is None


def test_threads_share_a_launcher(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(50):
                launcher([*make_args(torch)[:2], float(seed * 1000 + step % 7)], seed + 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cuda.launches) == 300
    for launched in cuda.launches:
        assert struct.unpack("<f", launched.params[1])[0] // 1000 == launched.grid[0] - 1
    assert len([entry for entry in cuda.log if entry[0] == "load"]) == 1


def test_another_device_than_the_current_one(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    torch.streams[1] = 55
    cuda.stream_devices[55] = 1
    launcher(make_args(torch, device=1))
    launcher(make_args(torch, device=0))
    assert [launched.context for launched in cuda.launches] == [101, 100]
    assert [launched.stream for launched in cuda.launches] == [55, 0]
    assert cuda.context == 100
    attribute = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    assert [entry for entry in cuda.log if entry[0] == "attribute"] == [
        ("attribute", attribute, 200000, 1),
        ("attribute", attribute, 200000, 0),
    ]
    assert len([entry for entry in cuda.log if entry[0] == "load"]) == 1


def test_a_thread_without_a_context(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    cuda.context = 0
    launcher(make_args(torch))
    assert cuda.launches[0].context == 100
    assert cuda.context == 0


def test_without_arrays_the_current_device_is_used(cuda: FakeDriver) -> None:
    cuda.parameter_sizes = [4]
    launcher = Launcher(make_kernel(), [ParamSlot("scalar", 0, dtype=dtypes.int32)], ["n"])
    cuda.context = 101
    launcher([5])
    assert cuda.launches[0].context == 101
    assert cuda.launches[0].grid == (132, 1, 1)


# --- refusals


def test_grids(cuda: FakeDriver) -> None:
    assert launch_grid(make_kernel(), None, device(0)) == (132, 1, 1)
    assert blocks(7) == blocks((7,)) == blocks([np.int64(7), 1]) == (7, 1, 1)
    assert blocks((1, 65535, 2)) == (1, 65535, 2)
    for grid, message in {
        (): "grid (): expected one to three extents, got 0",
        (1, 2, 3, 4): "grid (1, 2, 3, 4): expected one to three extents, got 4",
        (-1,): "grid (-1,): expected 0 to 2147483647 blocks in dimension 0, got -1",
        (1, 65536): "grid (1, 65536): expected 0 to 65535 blocks in dimension 1, got 65536",
        2.5: "grid 2.5: expected integers, got 2.5 in dimension 0",
    }.items():
        with pytest.raises(InvalidValue) as caught:
            blocks(grid)  # type: ignore[arg-type]
        assert caught.value.message == message


def test_a_grid_without_blocks_does_nothing(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    launcher(make_args(torch), [0, 5])
    assert cuda.launches == []
    with pytest.raises(TypeMismatch):  # but the arguments are checked
        launcher([*make_args(torch)[:2], "x"], 0)


def test_wrong_arguments(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    a, c, eps = make_args(torch)
    refused: list[tuple[list[Any], str]] = [
        ([a, c], "kernel gemm: expected 3 arguments (a, c, eps), got 2"),
        ([a, c, c], "argument eps: expected a scalar of type float32, got a torch.Tensor of shape"),
        ([a, 3, eps], "argument c: expected an array, got 3"),
        ([c, c, eps], "argument a: expected dtype bfloat16, for which the kernel was compiled"),
        ([a, make_args(torch, device=1)[1], eps], "arguments a and c are on different devices"),
        ([a, np.zeros((40, 52), np.float32), eps], "argument c: expected an array in GPU memory"),
        ([a, None, eps], "argument c: expected an array or a number, got None"),
    ]
    for args, message in refused:
        with pytest.raises((LaunchError, TypeMismatch)) as caught:
            launcher(args, 1)
        assert caught.value.message.startswith(message)
    assert cuda.launches == []


def test_a_host_tensor_does_not_ask_for_a_stream(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    torch._C._cuda_getCurrentRawStream = None
    with pytest.raises(LaunchError, match=r"got a torch tensor on cpu"):
        launcher([make_args(torch, device=-1)[0], *make_args(torch)[1:]], 1)


def test_a_failed_launch_says_with_what(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    cuda.fail["cuLaunchKernelEx"] = cuda.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(LaunchError) as caught:
        launcher(make_args(torch), (3, 2), stream=256)
    assert str(caught.value) == (
        "launching kernel gemm failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (text of 701); grid (3,"
        " 2, 1), block (384, 1, 1), 200000 bytes of dynamic shared memory, stream 0x100, Fake GPU"
        " 0\nhint: the block needs more registers or threads than a multiprocessor has: use fewer"
        " warps or smaller tiles"
    )
    cuda.fail.clear()
    launcher(make_args(torch), (3, 2), stream=256)
    assert len(cuda.launches) == 1


def test_code_for_another_device(cuda: FakeDriver, torch: Any) -> None:
    cuda.capability = (10, 0)
    with pytest.raises(LaunchError) as caught:
        Launcher(make_kernel(), SLOTS, NAMES)(make_args(torch))
    assert str(caught.value) == (
        "kernel gemm was compiled for sm_90a, which device 0 (Fake GPU 0) does not run: expected"
        " sm_100a, got sm_90a\nhint: compile it with target='sm_100a'"
    )
    assert not [entry for entry in cuda.log if entry[0] == "load"]


def test_too_much_shared_memory(cuda: FakeDriver, torch: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        Launcher(make_kernel(shared_bytes=232449), SLOTS, NAMES)(make_args(torch))
    assert caught.value.message == (
        "kernel gemm needs 232449 bytes of shared memory a block: expected at most 232448 on Fake"
        " GPU 0, got 232449"
    )


def test_code_that_does_not_load_is_tried_again(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    cuda.fail["cuLibraryLoadData"] = cuda.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(LaunchError) as caught:
        launcher(make_args(torch))
    assert str(caught.value) == (
        "loading the code of kernel gemm (5 bytes, sm_90a) failed: CUDA_ERROR_NO_BINARY_FOR_GPU"
        " (text of 209)\nhint: compile for the target of this device"
    )
    cuda.fail.clear()
    launcher(make_args(torch))
    assert len(cuda.launches) == 1


def test_parameters_that_the_code_does_not_have(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    cuda.parameter_sizes = [128, 8, 8, 128, 4, 8]
    with pytest.raises(InternalError) as caught:
        launcher(make_args(torch))
    assert caught.value.message == (
        "kernel gemm: its code has parameters of [128, 8, 8, 128, 4, 8] bytes, its plan"
        " [128, 4, 8, 128, 4, 8]"
    )
    assert cuda.launches == []


def test_without_a_driver(no_driver: list[int], torch: Any) -> None:
    launcher = Launcher(make_kernel(), SLOTS, NAMES)
    for _ in range(2):
        with pytest.raises(LaunchError, match="no usable NVIDIA GPU"):
            launcher(make_args(torch))
    assert no_driver == [1]
