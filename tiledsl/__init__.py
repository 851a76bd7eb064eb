"""A Python DSL for warp-specialised GPU kernels."""

from importlib.util import find_spec

# In the root of a checkout Python finds this folder before an installed wheel, but `codegen/` and
# `runtime/` lie beside it there, and only an (editable) installation puts them into the package.
if find_spec("tiledsl.codegen") is None:
    raise ImportError(
        "tiledsl was found as a source folder, without its compiler: expected an installation."
        " Run Python in another folder, or install the checkout with `pip install -e .`"
    )

from tiledsl._version import __version__
from tiledsl.errors import (
    Deadlock,
    InternalError,
    InvalidValue,
    LaunchError,
    NameNotFound,
    PerformanceWarning,
    PtxError,
    ResourceLimit,
    StageError,
    SyntaxNotSupported,
    TargetNotSupported,
    TileError,
    TileWarning,
    TypeMismatch,
)
from tiledsl.frontend.function import function
from tiledsl.kernel import Kernel, kernel
from tiledsl.language.barrier import mbarrier, named_barrier
from tiledsl.language.cluster import (
    cluster_id,
    cluster_rank,
    cluster_shape,
    cluster_size,
    cluster_sync,
)
from tiledsl.language.copy import async_copy, bulk_load
from tiledsl.language.debug import print as print  # not in __all__: a star must not hide print
from tiledsl.language.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tiledsl.language.grid import block_id, num_blocks, persistent, static_range
from tiledsl.language.math import abs as abs  # as print: not in __all__
from tiledsl.language.math import (
    cdiv,
    erf,
    exp,
    exp2,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    sigmoid,
    sqrt,
    tanh,
)
from tiledsl.language.mma import mma
from tiledsl.language.payload import (
    BlockwiseFP8TilePayload,
    StandardTilePayload,
    TileArray,
    payload,
)
from tiledsl.language.pipeline import InputTilePipeline
from tiledsl.language.ring import ProducerConsumerPipeline
from tiledsl.language.role import role
from tiledsl.language.scheduler import TileScheduler
from tiledsl.language.shared import shared
from tiledsl.language.tensor import Constant, Tensor, spec
from tiledsl.language.tile import SharedTile, Tile, full, iota, load, store, where, zeros
from tiledsl.language.tma import tma_load, tma_load_im2col, tma_prefetch, tma_store

__all__ = [
    "BlockwiseFP8TilePayload",
    "Constant",
    "DType",
    "Deadlock",
    "InputTilePipeline",
    "InternalError",
    "InvalidValue",
    "Kernel",
    "LaunchError",
    "NameNotFound",
    "PerformanceWarning",
    "ProducerConsumerPipeline",
    "PtxError",
    "ResourceLimit",
    "SharedTile",
    "StageError",
    "StandardTilePayload",
    "SyntaxNotSupported",
    "TargetNotSupported",
    "Tensor",
    "Tile",
    "TileArray",
    "TileError",
    "TileScheduler",
    "TileWarning",
    "TypeMismatch",
    "__version__",
    "async_copy",
    "bfloat16",
    "block_id",
    "bool_",
    "bulk_load",
    "cdiv",
    "cluster_id",
    "cluster_rank",
    "cluster_shape",
    "cluster_size",
    "cluster_sync",
    "erf",
    "exp",
    "exp2",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "full",
    "function",
    "int8",
    "int16",
    "int32",
    "int64",
    "iota",
    "kernel",
    "load",
    "log",
    "log2",
    "maximum",
    "mbarrier",
    "minimum",
    "mma",
    "named_barrier",
    "num_blocks",
    "payload",
    "persistent",
    "role",
    "rsqrt",
    "shared",
    "sigmoid",
    "spec",
    "sqrt",
    "static_range",
    "store",
    "tanh",
    "tma_load",
    "tma_load_im2col",
    "tma_prefetch",
    "tma_store",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "where",
    "zeros",
]
