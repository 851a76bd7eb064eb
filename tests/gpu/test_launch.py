"""Launching on a GPU: parameters, tensor maps, streams, and arrays of every framework.

The kernels are small PTX texts, so that only the host side is under test.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.gpu import launch_ptx
from tests.gpu.launch_ptx import TmaCopy, framework, load
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.errors import LaunchError
from tiledsl.runtime.arguments import read_array
from tiledsl.runtime.device import current_device, device, is_available
from tiledsl.runtime.launch import Launcher, LoadedKernel

# torch, CuPy, jax and numba warn about each other's versions.
pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng()


@pytest.fixture
def torch() -> Any:
    return framework("torch")


def scale_launcher() -> Launcher:
    return Launcher(load(launch_ptx.SCALE, "scale"), launch_ptx.SCALE_SLOTS, ("x", "factor"))


def grid_of(count: int) -> int:
    return -(-count // launch_ptx.THREADS)


KERNELS = [
    ("scale", launch_ptx.SCALE),
    ("last_byte", launch_ptx.LAST_BYTE),
    *(("echo", launch_ptx.echo(dtype)[0]) for dtype in (dtypes.bool_, dtypes.float16)),
    *(("tma_copy", launch_ptx.tma_copy(rank, 8192)) for rank in range(1, 6)),
]


@pytest.mark.parametrize(("name", "ptx"), KERNELS)
def test_the_kernels_of_these_tests_assemble(name: str, ptx: str) -> None:
    assert assemble(ptx, "sm_90a", name).resources.warnings == ()


# --- code and parameters


@pytest.mark.gpu
def test_device_facts(torch: Any) -> None:
    properties = torch.cuda.get_device_properties(0)
    facts = device(0)
    assert is_available()
    assert facts.name == properties.name
    assert facts.capability == (properties.major, properties.minor)
    assert facts.multiprocessors == properties.multi_processor_count
    assert facts.runs(facts.target)
    torch.zeros(1, device="cuda:0")
    assert current_device().ordinal == torch.cuda.current_device()


@pytest.mark.gpu
@pytest.mark.parametrize("assembled", [False, True])
def test_a_kernel_from_ptx_and_from_a_cubin(torch: Any, assembled: bool) -> None:
    code = launch_ptx.SCALE.encode()
    if assembled:
        code = assemble(launch_ptx.SCALE, "sm_90a", "scale").cubin
    kernel = LoadedKernel(code, "scale", threads=128, shared_bytes=0, target="sm_90a")
    launcher = Launcher(kernel, launch_ptx.SCALE_SLOTS, ("x", "factor"))
    x = torch.randn(1001, device="cuda", requires_grad=True)
    before = x.detach().clone()
    factor = float(RNG.normal())
    launcher([x, factor], grid_of(1001))
    torch.testing.assert_close(x.detach(), before * np.float32(factor), rtol=0, atol=0)
    assert kernel.parameter_sizes() == [8, 4, 4]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
def test_scalars_arrive_as_their_bits(torch: Any, dtype: DType) -> None:
    ptx, slots = launch_ptx.echo(dtype)
    launcher = Launcher(load(ptx, "echo"), slots, ("out", "value"))
    kind: Any = np.dtype(getattr(ml_dtypes, dtype.name, None) or dtype.name.removesuffix("_"))
    values = np.frombuffer(RNG.bytes(8 * kind.itemsize), kind)
    if dtype == dtypes.bool_:
        values = np.array([False, True])
    for value in values:
        if dtype.is_float and not np.isfinite(np.float64(value)):
            continue
        out = torch.zeros(8, dtype=torch.uint8, device="cuda")
        launcher([out, value], 1)
        assert out.cpu().numpy().tobytes()[: kind.itemsize] == value.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("shared", [1024, 48 * 1024, 48 * 1024 + 16, 227 * 1024])
def test_dynamic_shared_memory(torch: Any, shared: int) -> None:
    slots = [ParamSlot("pointer", 0)]
    launcher = Launcher(load(launch_ptx.LAST_BYTE, "last_byte", shared=shared), slots, ("out",))
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    launcher([out], 1)
    assert out.item() == shared


# --- frameworks and streams


def device_array(name: str, values: np.ndarray[Any, Any]) -> Any:
    if name == "torch":
        return framework("torch").from_numpy(values).cuda()
    if name == "cupy":
        return framework("cupy").asarray(values)
    return framework("numba.cuda").to_device(values)


def host_array(name: str, array: Any) -> np.ndarray[Any, Any]:
    if name == "torch":
        return np.asarray(array.cpu().numpy())
    return np.asarray(array.get() if name == "cupy" else array.copy_to_host())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy", "numba"])
def test_arrays_of_each_framework(name: str) -> None:
    values = RNG.normal(size=777).astype(np.float32)
    array = device_array(name, values)
    scale_launcher()([array, 2.5], grid_of(777))
    np.testing.assert_array_equal(host_array(name, array), values * np.float32(2.5))


@pytest.mark.gpu
def test_an_array_that_only_has_dlpack(torch: Any) -> None:
    class Wrapped:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **given: Any) -> Any:
            return self.tensor.__dlpack__(**given)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    tensor = torch.randn(500, device="cuda")
    expected = tensor * 3
    scale_launcher()([Wrapped(tensor), 3.0], grid_of(500))
    assert torch.equal(tensor, expected)
    view = torch.randn((6, 8), device="cuda").bfloat16()[1:, ::2]
    read = read_array("x", Wrapped(view))
    assert (read.pointer, read.shape) == (view.data_ptr(), tuple(view.shape))
    assert (read.strides, read.dtype) == (view.stride(), dtypes.bfloat16)


@pytest.mark.gpu
def test_jax_arrays_are_read(torch: Any) -> None:
    jnp = framework("jax.numpy")
    values = RNG.normal(size=(64, 64)).astype(np.float32)
    source = jnp.asarray(values).astype(jnp.bfloat16) + 1  # still being computed, perhaps
    target = torch.zeros((64, 64), dtype=torch.bfloat16, device="cuda")
    run = TmaCopy(dtypes.bfloat16, (64, 64), 128)
    run(torch, source, target, 0, 0)
    expected = np.asarray(source).astype(np.float32)
    np.testing.assert_array_equal(target.float().cpu().numpy(), expected)
    with pytest.raises(LaunchError, match=r"argument target: expected a writable array"):
        run(torch, target, source, 0, 0)


@pytest.mark.gpu
def test_torch_launches_on_the_current_stream(torch: Any) -> None:
    launcher = scale_launcher()
    x = torch.zeros(4096, device="cuda")
    launcher([x, 2.0], grid_of(4096))  # loaded: nothing synchronises from here on
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        launcher([x, 2.0], grid_of(4096))
    assert not stream.query()  # the call did not wait
    stream.synchronize()
    assert torch.all(x == 6.0)
    # And a stream given by hand, as an object and as a handle.
    for given in (stream, stream.cuda_stream):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(5.0)
        launcher([x, 2.0], grid_of(4096), stream=given)
        stream.synchronize()
        assert torch.all(x == 10.0)


@pytest.mark.gpu
def test_cupy_launches_on_the_current_stream() -> None:
    cupy = framework("cupy")
    torch = framework("torch")
    launcher = scale_launcher()
    x = cupy.zeros(4096, cupy.float32)
    launcher([x, 2.0], grid_of(4096))
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        torch.cuda._sleep(50_000_000)
        x.fill(3.0)
        launcher([x, 2.0], grid_of(4096))
    stream.synchronize()
    assert (x.get() == 6.0).all()


@pytest.mark.gpu
@pytest.mark.parametrize("first", ["torch", "cupy"])
def test_two_frameworks_on_two_streams_are_ordered(first: str) -> None:
    """The source is written late on its framework's stream, the target read on the other's."""
    cupy, torch = framework("cupy"), framework("torch")
    run = TmaCopy(dtypes.float32, (32, 32), 128)
    arrays = {
        "torch": torch.zeros((32, 32), device="cuda"),
        "cupy": cupy.zeros((32, 32), cupy.float32),
    }
    source, target = arrays[first], arrays["cupy" if first == "torch" else "torch"]
    dump = torch.zeros(run.nbytes, dtype=torch.uint8, device="cuda")
    args = [source, target, dump, 0, 0]
    run.launcher(args, 1)  # loaded: nothing synchronises from here on
    streams = {"torch": torch.cuda.Stream(), "cupy": cupy.cuda.Stream(non_blocking=True)}
    external = torch.cuda.ExternalStream(streams["cupy"].ptr)
    torch.cuda.synchronize()
    number = float(RNG.integers(1, 99))
    with streams["cupy"], torch.cuda.stream(streams["torch"]):
        with torch.cuda.stream(streams["torch"] if first == "torch" else external):
            torch.cuda._sleep(50_000_000)
        source[...] = number
        run.launcher(args, 1)
        copied = target.copy() if first == "torch" else target.clone()
    torch.cuda.synchronize()
    assert bool((copied == number).all())


@pytest.mark.gpu
def test_graph_capture(torch: Any) -> None:
    launcher = scale_launcher()
    x = torch.ones(1000, device="cuda")
    launcher([x, 1.0], grid_of(1000))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher([x, 2.0], grid_of(1000))
    assert torch.all(x == 1.0)
    for _ in range(3):
        graph.replay()
    assert torch.all(x == 8.0)


@pytest.mark.gpu
def test_launching_from_new_threads(torch: Any) -> None:
    launcher = scale_launcher()
    arrays = [torch.ones(1000, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work(array: Any) -> None:
        try:
            for _ in range(20):
                launcher([array, 1.5], grid_of(1000))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert failures == []
    expected = np.float32(1)
    for _ in range(20):
        expected *= np.float32(1.5)
    for array in arrays:
        assert torch.all(array == float(expected))


# --- refusals


@pytest.mark.gpu
def test_host_tensors_are_refused(torch: Any) -> None:
    with pytest.raises(LaunchError, match=r"argument x: .*, got a torch tensor on cpu") as caught:
        scale_launcher()([torch.zeros(8), 1.0], 1)
    assert caught.value.hint is not None and "x.cuda()" in caught.value.hint


@pytest.mark.gpu
def test_negated_views_are_refused(torch: Any) -> None:
    view = torch.randn(8, dtype=torch.complex64, device="cuda").conj().imag
    assert view.is_neg()
    with pytest.raises(LaunchError, match=r"argument x: .* got a lazily negated view"):
        scale_launcher()([view, 1.0], 1)


@pytest.mark.gpu
def test_a_launch_that_the_driver_refuses(torch: Any) -> None:
    kernel = load(launch_ptx.SCALE, "scale", threads=2048)
    launcher = Launcher(kernel, launch_ptx.SCALE_SLOTS, ("x", "factor"))
    x = torch.ones(8, device="cuda")
    with pytest.raises(LaunchError) as caught:
        launcher([x, 2.0], (3, 2))
    message = caught.value.message
    assert message.startswith("launching kernel scale failed: CUDA_ERROR_INVALID_VALUE (")
    assert "grid (3, 2, 1), block (2048, 1, 1), 0 bytes of dynamic shared memory" in message
    scale_launcher()([x, 2.0], 1)  # nothing is broken
    assert torch.all(x == 2.0)


@pytest.mark.gpu
def test_code_that_is_none(torch: Any) -> None:
    x = torch.ones(8, device="cuda")
    broken = LoadedKernel(b"this is no code", "scale", threads=1, shared_bytes=0, target="sm_90a")
    with pytest.raises(LaunchError, match=r"loading the code of kernel scale .* CUDA_ERROR_"):
        Launcher(broken, launch_ptx.SCALE_SLOTS, ("x", "factor"))([x, 2.0], 1)
    other = Launcher(load(launch_ptx.SCALE, "other"), launch_ptx.SCALE_SLOTS, ("x", "factor"))
    with pytest.raises(LaunchError, match=r"finding kernel other failed: CUDA_ERROR_NOT_FOUND"):
        other([x, 2.0], 1)


# --- speed


@pytest.mark.gpu
def test_launch_time_with_three_tensors_and_their_maps(
    torch: Any, record_property: Any, capsys: Any
) -> None:
    """CPU time of a launch with three torch tensors, two of them with cached tensor maps."""
    run = TmaCopy(dtypes.bfloat16, (8, 64), 128)
    source, target = (torch.zeros((64, 64), dtype=torch.bfloat16, device="cuda") for _ in "ab")
    dump = torch.zeros(run.nbytes, dtype=torch.uint8, device="cuda")
    args = [source, target, dump, 0, 0]
    times = []
    for _ in range(30):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):  # fewer than the driver queues before it blocks
            run.launcher(args, 1)
        times.append((time.perf_counter() - start) / 200 * 1e6)
    median = statistics.median(times)
    bound = run.launcher.bind(args, 1)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        bound.launch(0)
    raw = (time.perf_counter() - start) / 200 * 1e6
    record_property("launch_us", median)
    with capsys.disabled():
        print(f"\nlaunch: {median:.2f} us (best {min(times):.2f}), of which driver {raw:.2f} us")
    # Hosts differ: what the driver takes on this one is the measure. Seen: 2 to 2.5 times.
    assert min(times) <= 4 * raw
