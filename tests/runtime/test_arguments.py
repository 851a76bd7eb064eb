"""What arguments are, read from each framework, and whether they go together."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.runtime.fake_cuda import FakeArray, FakeDriver
from tests.runtime.fake_frameworks import Producer
from tiledsl.codegen.ir import dtypes
from tiledsl.errors import LaunchError, TypeMismatch
from tiledsl.runtime import dlpack
from tiledsl.runtime.arguments import check_same_device, classify, launch_place, read_array
from tiledsl.runtime.arrays import ArrayArg, ArraySpec, ScalarSpec, contiguous_strides


def test_numpy_arrays_of_every_dtype() -> None:
    for dtype in dtypes.ALL_DTYPES:
        kind = getattr(ml_dtypes, dtype.name, None) or dtype.name.removesuffix("_")
        array = np.zeros((2, 3, 4), kind)
        assert classify("a", array) == ArraySpec(dtype, 3, "host")
        read = read_array("a", array)
        assert read.pointer == array.ctypes.data
        assert (read.shape, read.strides, read.dtype) == ((2, 3, 4), (12, 4, 1), dtype)
        assert read.device == "cpu"


def test_numpy_views_keep_their_strides() -> None:
    array = np.zeros((6, 8), np.float32)
    view = array[::-2, 1::3].T
    read = read_array("a", view)
    assert read.shape == view.shape
    assert read.strides == tuple(stride // 4 for stride in view.strides)
    assert read.pointer == view.ctypes.data
    assert not read.readonly
    assert read_array("a", np.broadcast_to(array, (2, 6, 8))).readonly


def test_classifying_imports_no_cuda() -> None:
    code = (
        "import sys, numpy; from tiledsl.runtime.arguments import classify;"
        "classify('a', numpy.zeros(3)); classify('n', 3);"
        "sys.exit(any(name.split('.')[0] in ('cuda', 'torch', 'cupy') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "argument a: expected an array or a number, got None"),
        ([1, 2], "argument a: expected an array or a number, got a value of type list"),
        ("x", "argument a: expected an array or a number, got a value of type str"),
        (np.zeros(()), "argument a: expected an array of rank 1 to 5, got rank 0"),
        (np.zeros((1,) * 6), "argument a: expected an array of rank 1 to 5, got rank 6"),
    ],
)
def test_what_cannot_be_an_argument(value: Any, expected: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        classify("a", value)
    assert caught.value.message == expected


def test_numpy_dtypes_that_tiledsl_lacks() -> None:
    with pytest.raises(
        TypeMismatch, match=r"argument a: no tiledsl dtype for dtype\('complex64'\)"
    ):
        classify("a", np.zeros(3, np.complex64))
    with pytest.raises(TypeMismatch, match=r"argument a: expected native byte order, got >i4"):
        classify("a", np.zeros(3, ">i4"))


def test_numbers() -> None:
    assert classify("n", 3) == ScalarSpec("int")
    assert classify("x", np.float32(3)) == ScalarSpec("float", dtypes.float32)


# --- __cuda_array_interface__


def test_cuda_array_interface(cuda: FakeDriver) -> None:
    array = FakeArray(cuda.address(1, 64), (4, 6), "<f2")
    assert classify("a", array) == ArraySpec(dtypes.float16, 2, "device")
    read = read_array("a", array)
    assert read == ArrayArg(cuda.address(1, 64), (4, 6), (6, 1), dtypes.float16, 1)
    assert read.owner is array
    strided = FakeArray(cuda.address(0), (4, 6), "<f4", strides=(64, 4), readonly=True)
    read = read_array("a", strided)
    assert (read.strides, read.readonly, read.device) == ((16, 1), True, 0)


def test_an_interface_takes_bfloat16_from_the_arrays_own_dtype(cuda: FakeDriver) -> None:
    array = FakeArray(cuda.address(0), (4,), "<V2")
    with pytest.raises(TypeMismatch, match=r"argument a: no tiledsl dtype for dtype\('V2'\)"):
        classify("a", array)
    array.dtype = np.dtype(ml_dtypes.bfloat16)  # type: ignore[attr-defined]
    assert classify("a", array).dtype == dtypes.bfloat16


def test_an_interface_without_elements_is_on_the_current_device(cuda: FakeDriver) -> None:
    cuda.context = 101
    assert read_array("a", FakeArray(0, (0, 8), "<f4")).device == 1
    cuda.context = 0  # a thread without a context
    assert read_array("a", FakeArray(0, (0, 8), "<f4")).device == 0


def test_interfaces_that_are_refused(cuda: FakeDriver) -> None:
    with pytest.raises(TypeMismatch, match=r"argument a: a masked array"):
        classify("a", FakeArray(cuda.address(0), (4,), "<f4", mask=object()))
    with pytest.raises(LaunchError) as caught:
        classify("a", FakeArray(4096, (4,), "<f4"))
    assert caught.value.message == (
        "argument a: FakeArray gives a pointer (0x1000) that the CUDA driver does not know"
    )
    with pytest.raises(LaunchError) as caught:
        classify("a", FakeArray(cuda.address(0), (4, 4), "<f4", strides=(18, 4)))
    assert caught.value.message == (
        "argument a: expected strides that are whole elements of 4 bytes, got (18, 4) bytes"
    )


def test_extents_above_31_bits(cuda: FakeDriver) -> None:
    array = FakeArray(cuda.address(0), (2, 1 << 31), "|i1")
    with pytest.raises(LaunchError) as caught:
        read_array("a", array)
    assert caught.value.message == (
        "argument a: extent 2147483648 of dimension 1 is too large: expected at most 2147483647"
        " (2**31 - 1), for a kernel's indices are 32-bit"
    )
    assert read_array("a", FakeArray(cuda.address(0), (2, (1 << 31) - 1), "|i1")).shape[1] > 1


# --- __dlpack__


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack(versioned: bool) -> None:
    made = Producer(
        4096, (4, 6), 4, 16, strides=(8, 1), device=1, byte_offset=32, versioned=versioned
    )
    assert classify("a", made) == ArraySpec(dtypes.bfloat16, 2, "device")
    read = read_array("a", made, 77)
    assert read == ArrayArg(4096 + 32, (4, 6), (8, 1), dtypes.bfloat16, 1)
    assert made.asked[-1] == 77
    # The legacy default stream is 1 in the protocol.
    read_array("a", made, 0)
    assert made.asked[-1] == 1
    dense = Producer(4096, (4, 0, 3), 2, 32, versioned=versioned)
    assert read_array("a", dense).strides == contiguous_strides((4, 0, 3)) == (3, 3, 1)


def test_dlpack_dtypes() -> None:
    for (code, bits), dtype in dlpack._DTYPES.items():
        assert read_array("a", Producer(0, (1,), code, bits)).dtype == dtype
    assert set(dlpack._DTYPES.values()) == set(dtypes.ALL_DTYPES)
    with pytest.raises(
        TypeMismatch, match=r"argument a: no tiledsl dtype for DLPack type code 5, 64"
    ):
        read_array("a", Producer(0, (1,), 5, 64))
    with pytest.raises(TypeMismatch, match=r"2 bits, 4 lane\(s\)"):
        read_array("a", Producer(0, (1,), 2, 32, lanes=4))


def test_dlpack_that_is_refused() -> None:
    with pytest.raises(LaunchError) as caught:
        read_array("a", Producer(0, (1,), 2, 32, device_type=dlpack.CPU))
    assert caught.value.message == (
        "argument a: expected an array in GPU memory or a NumPy array, got a Producer in host"
        " memory (DLPack device type 1)"
    )
    assert caught.value.hint == (
        "pass an array in GPU memory to launch on the GPU, or np.asarray(a) to run on the emulator"
    )
    future = Producer(0, (1,), 2, 32)
    future._managed.major = 2
    with pytest.raises(TypeMismatch, match=r"argument a: expected DLPack 0.x or 1.x, got 2.1"):
        read_array("a", future)
    assert read_array("a", Producer(0, (1,), 2, 32, readonly=True)).readonly


# --- torch


def test_torch(torch: Any) -> None:
    tensor = torch.Tensor(4096, (4, 6), torch.bfloat16, device=1, strides=(1, 4))
    assert classify("a", tensor) == ArraySpec(dtypes.bfloat16, 2, "device")
    read = read_array("a", tensor)
    assert read == ArrayArg(4096, (4, 6), (1, 4), dtypes.bfloat16, 1)

    class Parameter(torch.Tensor):  # type: ignore[misc]
        pass

    assert classify("w", Parameter(64, (3,), torch.float32)) == ArraySpec(dtypes.float32, 1)


def test_torch_tensors_that_are_refused(torch: Any) -> None:
    host = torch.Tensor(4096, (4,), torch.float32, device=-1)
    for reader in (classify, read_array):
        with pytest.raises(LaunchError) as caught:
            reader("a", host)
        assert str(caught.value) == (
            "argument a: expected an array in GPU memory or a NumPy array, got a torch tensor on"
            " cpu\nhint: pass a.cuda() to launch on the GPU, or a.numpy() to run on the emulator"
        )
    with pytest.raises(TypeMismatch, match=r"argument a: no tiledsl dtype for torch.complex64"):
        classify("a", torch.Tensor(4096, (4,), torch.complex64))
    with pytest.raises(LaunchError, match=r"argument a: .* got a lazily negated view") as refused:
        read_array("a", torch.Tensor(4096, (4,), torch.float32, negated=True))
    assert refused.value.hint == "a.resolve_neg()"
    for reader in (classify, read_array):
        with pytest.raises(TypeMismatch, match=r"expected a dense \(strided\) tensor, got sparse"):
            reader("a", torch.Tensor(4096, (4,), torch.float32, layout="sparse_coo"))


# --- together


def test_mixing_numpy_and_device_arrays_names_both() -> None:
    specs = [
        ("n", ScalarSpec("int")),
        ("a", ArraySpec(dtypes.float32, 2, "device")),
        ("b", ArraySpec(dtypes.float32, 2, "host")),
    ]
    with pytest.raises(LaunchError) as caught:
        launch_place(specs)
    assert str(caught.value) == (
        "arguments b and a cannot be mixed: expected all arrays in one place, got b as a NumPy"
        " array (host memory) and a in GPU memory\n"
        "hint: move b to the GPU to launch there, or a to NumPy to run on the emulator"
    )
    assert launch_place(specs[:2]) == "device"
    assert launch_place([specs[0], specs[2]]) == "host"
    assert launch_place(specs[:1]) is None


def test_arrays_on_different_devices() -> None:
    arrays = [
        ("a", ArrayArg(0, (1,), (1,), dtypes.int8, 1)),
        ("b", ArrayArg(0, (1,), (1,), dtypes.int8, 0)),
    ]
    with pytest.raises(LaunchError) as caught:
        check_same_device(arrays)
    assert str(caught.value) == (
        "arguments a and b are on different devices: expected all on one, got cuda:1 and cuda:0\n"
        "hint: copy b to cuda:1"
    )
    assert check_same_device(arrays[:1]) == 1
    assert check_same_device([]) is None
