"""Machine code on the device: loading, and what a device must have to run it."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

from tiledsl.errors import UNKNOWN_LOC, LaunchError, Loc
from tiledsl.runtime.device import Device, check, driver


class LoadedKernel:
    """A kernel's machine code, loaded once for all devices of the process.

    It stays loaded until the process ends: unloading would have to wait for every stream, and
    a kernel is a few kilobytes.

    Args:
        cubin: the machine code; PTX text (as bytes) works too and is compiled by the driver.
        name: the kernel's name in it.
        threads: threads of a block.
        shared_bytes: dynamic shared memory of a block.
        target: what it was compiled for, such as ``"sm_90a"``.
        cluster: blocks of a cluster along x, y and z of the grid.
        persistent: whether it is meant for a grid that runs all at once.
        loc: where the user wrote it, for warnings.

    Attributes:
        warned: the registry of warnings that were given about it (see ``warnings``).
    """

    def __init__(
        self,
        cubin: bytes,
        name: str,
        *,
        threads: int,
        shared_bytes: int,
        target: str,
        cluster: tuple[int, int, int] = (1, 1, 1),
        persistent: bool = False,
        loc: Loc = UNKNOWN_LOC,
    ) -> None:
        self.cubin = cubin
        self.name = name
        self.threads = threads
        self.shared_bytes = shared_bytes
        self.target = target
        self.cluster = cluster
        self.cluster_size = prod(cluster)
        self.persistent = persistent
        self.loc = loc
        self.warned: dict[Any, Any] = {}
        self._fitting: dict[int, int] = {}
        self._lock = threading.Lock()
        self._kernel: Any = None
        self._functions: dict[int, Any] = {}

    def function(self, on: Device) -> Any:
        """What to launch on the device ``on``; loads and prepares on the first call.

        Raises:
            LaunchError: when the device cannot run the target, has too little shared memory,
                or the driver refuses the code.
        """
        found = self._functions.get(on.ordinal)
        if found is None:
            with self._lock:
                found = self._functions.get(on.ordinal) or self._prepare(on)
                self._functions[on.ordinal] = found
        return found

    def configuration(self, grid: tuple[int, int, int]) -> Any:
        """The driver's ``CUlaunchConfig`` for a grid, on the null stream."""
        drv = driver()
        config = drv.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = self.threads, 1, 1
        config.sharedMemBytes = self.shared_bytes
        config.numAttrs = 0
        if self.cluster_size > 1:
            attribute = drv.CUlaunchAttribute()
            attribute.id = drv.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = attribute.value.clusterDim
            dims.x, dims.y, dims.z = self.cluster
            config.attrs = [attribute]
            config.numAttrs = 1
        return config

    def fitting_blocks(self, on: Device) -> int:
        """Blocks, in whole clusters, that the device ``on`` runs at once; 0 when none fits.

        Asked of the driver once a device. A cluster must fit into one of the device's groups of
        multiprocessors, which are not all of the same size: an H200 runs 66 clusters of two
        blocks that fill a multiprocessor each, but only 30 of four.
        """
        found = self._fitting.get(on.ordinal)
        if found is None:
            found = self._fitting[on.ordinal] = self._ask_fitting(on)
        return found

    def _ask_fitting(self, on: Device) -> int:
        drv, function = driver(), self.function(on)
        what = f"asking how many blocks of {self.name} {on.name} runs at once"
        with on.current():
            if self.cluster_size == 1:
                answer = drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    function, self.threads, self.shared_bytes
                )
                return int(check(answer, what)) * on.multiprocessors
            # One cluster stands for any grid of whole ones.
            config = self.configuration(self.cluster)
            return int(check(drv.cuOccupancyMaxActiveClusters(function, config), what)) * (
                self.cluster_size
            )

    def parameter_sizes(self) -> list[int]:
        """Bytes of each machine parameter, as the loaded code declares them.

        To be called with the device's context current, after ``function``.
        """
        drv = driver()
        sizes: list[int] = []
        while True:
            status, *info = drv.cuKernelGetParamInfo(self._kernel, len(sizes))
            if status != drv.CUresult.CUDA_SUCCESS:
                return sizes
            sizes.append(int(info[1]))

    def _prepare(self, on: Device) -> Any:
        if not on.runs(self.target):
            raise LaunchError(
                f"kernel {self.name} was compiled for {self.target}, which device {on.ordinal}"
                f" ({on.name}) does not run: expected {on.target}, got {self.target}",
                hint=f"compile it with target={on.target!r}",
            )
        if self.shared_bytes > on.shared_bytes:
            raise LaunchError(
                f"kernel {self.name} needs {self.shared_bytes} bytes of shared memory a block:"
                f" expected at most {on.shared_bytes} on {on.name}, got {self.shared_bytes}",
                hint="use fewer stages or smaller tiles",
            )
        drv = driver()
        with on.current():
            if self._kernel is None:
                self._kernel = self._load()
            if self.shared_bytes:
                # Also for sizes below the default limit of 48 KiB: static shared memory counts
                # against it, and exactly 48 KiB has been refused.
                which = drv.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                check(
                    drv.cuKernelSetAttribute(which, self.shared_bytes, self._kernel, on.handle),
                    f"opting in to {self.shared_bytes} bytes of shared memory for {self.name}",
                )
            # Loads the code into the context now: later it might be during a graph capture.
            return check(drv.cuKernelGetFunction(self._kernel), f"loading {self.name} on {on.name}")

    def _load(self) -> Any:
        drv = driver()
        loading = f"loading the code of kernel {self.name} ({len(self.cubin)} bytes, {self.target})"
        library = check(drv.cuLibraryLoadData(self.cubin, [], [], 0, [], [], 0), loading)
        answer = drv.cuLibraryGetKernel(library, self.name.encode())
        # Code that is none is only noticed when it is looked into.
        absent = answer[0] == drv.CUresult.CUDA_ERROR_NOT_FOUND
        return check(answer, f"finding kernel {self.name}" if absent else loading)
