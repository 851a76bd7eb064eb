"""What other texts call things, for whoever looks for that name in the module ``tiledsl``."""

from __future__ import annotations

_COUNTS = "nothing: the compiler counts the arrivals of each barrier and initialises it"
_PLACED = "nothing: the compiler places tiles and barriers in shared memory"
_ROLES = "`with td.role(name, warps=...)`: the compiler chooses the warps of each role"
_BLACKWELL = "nothing for sm_90a: it belongs to Blackwell's tensor memory"
_BLOCK_SCALED = "td.BlockwiseFP8TilePayload(...); block-scaled formats belong to Blackwell"
_FILLED = "pipeline.producer().acquire()"
_USED = "pipeline.consumer().acquire()"
_RING = "td.InputTilePipeline(payload, num_group_stages=...)"
_TILES = "td.TileArray(dtype, shape, number) in a payload, or td.shared(shape, dtype, number=...)"

# Name -> what to write here. Names that tiledsl has itself never come to be looked up.
INSTEAD: dict[str, str] = {
    # Pipelines
    "TilePipeline": _RING,
    "BlockScaledTilePipeline": _RING,
    "RingBuffer": _RING,
    "OutputTilePipeline": _BLACKWELL,
    "OutputKPipeline": _BLACKWELL,
    "OutputStage": _BLACKWELL,
    "OutputProducer": _BLACKWELL,
    "OutputConsumer": _BLACKWELL,
    "MmaStage": _BLACKWELL,
    "MmaKStage": _BLACKWELL,
    "EpilogueStage": _BLACKWELL,
    "EpilogueKStage": _BLACKWELL,
    "EpilogueKContext": _BLACKWELL,
    "PerKConsumerStage": _BLACKWELL,
    "BlockScaledTilePayload": _BLOCK_SCALED,
    "TilePayload": "@td.payload on a class whose attributes are td.TileArray",
    "InputProducer": "pipeline.producer()",
    "InputConsumer": "pipeline.consumer()",
    "InputProducerStage": _FILLED,
    "ProducerStage": f"{_FILLED}, or acquire_producer() of a bare ring",
    "ProducerTiles": _FILLED,
    "StandardProducerStage": _FILLED,
    "BlockScaledProducerStage": _FILLED,
    "InputConsumerStage": _USED,
    "ConsumerStage": f"{_USED}, or acquire_consumer() of a bare ring",
    "ConsumerTiles": _USED,
    "BlockScaledConsumerStage": _USED,
    "BlockScaledInputProducer": "pipeline.producer()",
    "BlockScaledInputConsumer": "pipeline.consumer()",
    "TileProducer": "pipeline.producer()",
    "StandardTileProducer": "pipeline.producer()",
    "RingBufferProducer": "pipeline.producer()",
    "TileConsumer": "pipeline.consumer()",
    "RingBufferConsumer": "pipeline.consumer()",
    "PipelineBackend": "nothing: the same kernel runs on a GPU and in the emulator",
    "NvidiaMbarBackend": "nothing: the barriers of a pipeline are mbarriers",
    "SM100_PIPELINE_WAIT_TICKS": "nothing: the hardware chooses how long a wait sleeps",
    # Storage
    "StandardTileStorage": _PLACED,
    "BlockScaledTileStorage": _PLACED,
    "BlockwiseFP8TileStorage": _PLACED,
    "OutputTileStorage": _PLACED,
    "BarrierPair": _PLACED,
    "InputPipelineStorage": _PLACED,
    "OutputPipelineStorage": _BLACKWELL,
    "TmemDeallocStorage": _BLACKWELL,
    "SmemPipelineBundle": _PLACED,
    "SmemPipelineBundleNoClc": _PLACED,
    "SmemBarriers": _PLACED,
    "SmemLayouts": _PLACED,
    "stack_allocation": _TILES,
    "SourceTileStorage": "a td.InputTilePipeline for the tiles that the epilogue reads",
    "EpiLoadPipelineStorage": "a second td.InputTilePipeline",
    "LoadOrderBarrierStorage": "td.mbarrier(...) or a bare ring between the two loaders",
    "LoadOrderBarrier": "td.mbarrier(...) or a bare ring between the two loaders",
    "RawBarrierStorage": "td.mbarrier(count, number=...)",
    # Barriers, roles, places
    "SharedMemBarrier": "td.mbarrier(count)",
    "SMemBarrier": "td.mbarrier(count)",
    "PipelineBarrier": "td.mbarrier(count, number=...)",
    "MbarPtr": "td.mbarrier(count), or stage.barrier() of a pipeline",
    "WarpGroupBarrier": "td.named_barrier()",
    "NamedBarrierSemaphore": "td.named_barrier()",
    "WarpRole": _ROLES,
    "WarpRole1D1D": _ROLES,
    "warp_id": _ROLES,
    "thread_idx": _ROLES,
    "KernelContext": "td.block_id(), td.cluster_rank(), td.cluster_id(axis)",
    "init_core_barriers": _COUNTS,
    "init_clc_barriers": _COUNTS,
    "compute_input_consumer_count": _COUNTS,
    "compute_accum_barrier_counts": _COUNTS,
    "compute_clc_barrier_counts": _COUNTS,
    "compute_tma_tile_dims": "nothing: the box of a copy follows from the shared tile",
    # Tiles
    "SMemTile": _TILES,
    "SMemTileArray": _TILES,
    "SMemTileIter": _TILES,
    "SMemPtr": _TILES,
    "SMemArray": "td.mbarrier(count, number=...) for barriers, td.shared(...) for tiles",
    "RegTile": "td.zeros(shape, dtype), td.full(...) or tile.load()",
    "reg_tile_to_tile_tensor": "nothing: there is one kind of register tile",
}


def hint_for(name: str) -> str | None:
    """``write ...`` for a name that tiledsl has not, where it is known from elsewhere."""
    return f"write {INSTEAD[name]}" if name in INSTEAD else None
