"""How is a kernel brought down, step by step? The order stands in ``bring_down``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tiledsl.codegen.checks.accesses import check_accesses
from tiledsl.codegen.checks.clusters import check_clusters
from tiledsl.codegen.checks.linear import check_linear_stages
from tiledsl.codegen.checks.producers import check_producers
from tiledsl.codegen.checks.raw_bytes import check_raw_bytes
from tiledsl.codegen.checks.ready import check_ready
from tiledsl.codegen.checks.turns import check_turns
from tiledsl.codegen.ir.core import Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.plan import Limits
from tiledsl.codegen.ir.verifier import verify
from tiledsl.codegen.passes.derive_axes import derive_axes
from tiledsl.codegen.passes.derive_bytes import derive_bytes
from tiledsl.codegen.passes.derive_counts import derive_counts
from tiledsl.codegen.passes.derive_lookahead import derive_lookahead
from tiledsl.codegen.passes.expand_pipelines import expand_pipelines
from tiledsl.codegen.passes.expand_stores import expand_stores
from tiledsl.codegen.passes.infer_layouts import infer_layouts
from tiledsl.codegen.passes.keep_lockstep import keep_lockstep
from tiledsl.codegen.passes.order_elements import order_elements
from tiledsl.codegen.passes.order_shared import order_shared
from tiledsl.codegen.passes.plan_params import plan_params
from tiledsl.codegen.passes.plan_roles import plan_roles
from tiledsl.codegen.passes.plan_shared import plan_shared
from tiledsl.codegen.passes.replicate_roles import replicate_roles
from tiledsl.codegen.passes.rewrite import remove_dead
from tiledsl.codegen.passes.schedule_async import schedule_async
from tiledsl.codegen.passes.take_requirements import take_requirements

Pass = Callable[[Kernel], None]


@dataclass(slots=True)
class PassHooks:
    """What to do around each pass.

    Attributes:
        check: verify the IR behind every pass.
        after: called with the pass's name and the kernel, to dump it.
        seconds: time that each pass took, filled in.
    """

    check: bool = True
    after: Callable[[str, Kernel], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def bring_down(kernel: Kernel, limits: Limits, hooks: PassHooks | None = None) -> None:
    """Bring a tile-level kernel down to protocol level, with its plan, in place.

    Args:
        kernel: at tile level, verified.
        limits: what a block of the target may use.
        hooks: what to do around each pass.

    Raises:
        TileError: what the user wrote cannot be compiled; the message says where and why.
    """
    hooks = hooks or PassHooks()

    def lower(kernel: Kernel) -> None:
        kernel.level = Level.MIXED
        # Stores first: they read accumulators, which the schedule must see.
        expand_stores(kernel, limits.shared_bytes)

    def finish(kernel: Kernel) -> None:
        kernel.level = Level.PROTOCOL
        remove_dead(kernel)

    passes: list[tuple[str, Pass]] = [
        # Tile level: what the user said, checked.
        ("check_linear_stages", check_linear_stages),
        ("check_turns", check_turns),
        ("check_producers", check_producers),
        ("check_ready", check_ready),
        ("check_clusters", check_clusters),
        ("check_raw_bytes", check_raw_bytes),
        ("check_accesses", check_accesses),
        ("derive_bytes", derive_bytes),
        ("derive_lookahead", derive_lookahead),
        ("derive_axes", derive_axes),
        ("replicate_roles", replicate_roles),
        ("infer_layouts", infer_layouts),
        ("keep_lockstep", keep_lockstep),  # needs the mode of each role
        ("derive_counts", derive_counts),
        ("take_requirements", take_requirements),
        # Down to protocol level.
        ("expand_stores", lower),
        ("expand_pipelines", expand_pipelines),
        ("schedule_async", schedule_async),  # needs the barriers that the pipelines became
        ("order_elements", order_elements),
        ("order_shared", order_shared),
        ("remove_dead", finish),
        # Plans: nothing changes the program any more.
        ("plan_roles", lambda k: plan_roles(k, limits)),
        ("plan_shared", lambda k: plan_shared(k, limits.shared_bytes)),
        ("plan_params", plan_params),
    ]
    for name, run in passes:
        started = time.perf_counter()
        run(kernel)
        if hooks.check:
            verify(kernel, name)
        hooks.seconds[name] = time.perf_counter() - started
        if hooks.after is not None:
            hooks.after(name, kernel)
