"""The derived facts of a kernel as a table of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiledsl.codegen.explain.facts import Barriers, Facts, Filling, Ring, Role, cluster_text
from tiledsl.codegen.ir.plan import Arrival
from tiledsl.codegen.ir.types import TileArray, shape_text
from tiledsl.errors import counted

_GAP = "  "


def table(facts: Facts) -> str:
    """All sections that the kernel has something for."""
    sections = [
        _head(facts),
        _section("roles", _roles(facts)),
        *(_ring(ring, facts) for ring in facts.rings),
        *(_barriers(row) for row in facts.barriers),
        _section("named barriers", _named(facts)),
        _section("tensor maps", _maps(facts)),
        _section("shared memory", _shared(facts)),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as aligned text; ``right`` are the columns that end flush."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = [f"  {line}" for line in lines]
    return [title, *body] if body else []


def _head(facts: Facts) -> list[str]:
    parts = [f"{facts.threads} threads a block", f"{facts.shared_bytes} bytes of shared memory"]
    if facts.persistent:
        parts.append("persistent")
    cluster = cluster_text(facts.cluster)
    if cluster:
        parts.append(f"clusters of {cluster}")
    return [f"{facts.name} for {facts.target}: {', '.join(parts)}"]


def warps_text(role: Role) -> str:
    if role.warps == 1:
        return f"warp {role.first_warp}"
    return f"warps {role.first_warp}-{role.first_warp + role.warps - 1}"


def mode_text(role: Role) -> str:
    """Who runs the role's program."""
    if role.mode == "thread":
        return "one thread"
    if role.mode == "warps":
        return f"{32 * role.warps} threads"
    return counted(role.parts, "warpgroup")


def registers_text(role: Role) -> str:
    return f"{role.registers} registers" if role.fixed else f"up to {role.registers} registers"


def _roles(facts: Facts) -> list[str]:
    return columns(
        [
            (
                role.name,
                warps_text(role),
                mode_text(role),
                registers_text(role),
                "; ".join(role.does),
            )
            for role in facts.roles
        ]
    )


# ------------------------------------------------------------------------------------ rings


def array_text(array: TileArray) -> str:
    tiles = f"{array.tiles} x " if array.tiles > 1 else ""
    swizzle = f"swizzle {array.swizzle}" if array.swizzle else "no swizzle"
    return f"{array.name}: {tiles}{shape_text(array.shape)} {array.dtype.short}, {swizzle}"


def stages_text(ring: Ring) -> str:
    return counted(ring.type.stages, "stage")


def _ring(ring: Ring, facts: Facts) -> list[str]:
    arrays = "; ".join(map(array_text, ring.type.arrays)) or "without tiles"
    lines = [f"ring {ring.name}: {stages_text(ring)} ({arrays})  {ring.loc.short()}"]
    for which, side in (("full", "producers"), ("empty", "consumers")):
        lines += _phase(ring, which, side, facts)
        if which == "full":
            lines += _bytes(ring)
    lines += _drain(ring, facts)
    return lines


def arrivals_text(count: int) -> str:
    return f"{counted(count, 'arrival')} a phase"


def _phase(ring: Ring, which: str, side: str, facts: Facts) -> list[str]:
    number = ring.type.stages
    barriers = counted(number, "mbarrier")
    count = ring.counts[which]
    stated = ", as stated" if ring.stated[which] else ""
    lines = [f"  {which.ljust(5)}  {barriers}, {arrivals_text(count)}{stated}"]
    arrivals = ring.arrivals[which]
    lines += _who(arrivals)
    brought = sum(arrival.number for arrival in arrivals)
    if brought and not stated and count != brought:
        blocks = count // brought
        lines.append(f"           times {blocks}: the blocks of the cluster that share the stage")
    if not arrivals:
        names = ", ".join(ring.producers if side == "producers" else ring.consumers)
        lines.append(f"           {side}: {names or 'by hand'}")
    return lines


def _who(arrivals: Sequence[Arrival]) -> list[str]:
    rows = [(f"{a.number} of {a.role}", a.why) for a in arrivals]
    return [f"           {line}" for line in columns(rows)]


def _bytes(ring: Ring) -> list[str]:
    lines = []
    for filling in ring.fillings:
        if filling.nbytes:
            where = f"  {filling.loc.short()}" if len(ring.fillings) > 1 else ""
            lines.append(f"  bytes  {filling.nbytes} a phase, by {filling.role}{where}")
            lines += _loads(filling)
    rows = [(f"{what} by {role}", loc.short()) for role, what, loc in ring.stores]
    if rows:
        lines.append("  other  no bytes are counted; the role arrives when they are done")
        lines += [f"           {line}" for line in columns(rows)]
    return lines


def _loads(filling: Filling) -> list[str]:
    rows = [(str(load.nbytes), load.what, load.loc.short()) for load in filling.loads]
    return [f"           {line}" for line in columns(rows, right=(0,))]


def drain_text(ring: Ring, facts: Facts) -> str:
    """Who waits at the end until nobody uses the ring any more, and why."""
    if ring.axes:
        return (
            "by the cluster, which leaves together: other blocks load into these stages and"
            " arrive on their barriers"
        )
    return "none: all consumers are in this block, and take every stage before it ends"


def _drain(ring: Ring, facts: Facts) -> list[str]:
    lines = [
        f"  drain  by {role}, which waits for all stages to be free  {loc.short()}"
        for role, loc in ring.drains
    ]
    if not ring.drains or ring.axes:
        lines.append(f"  drain  {drain_text(ring, facts)}")
    return lines


# -------------------------------------------------------------------------------- the others


def _barriers(row: Barriers) -> list[str]:
    number = counted(row.number, "mbarrier")
    what = "hand the turn on from replica to replica" if row.turns else "of your own"
    lines = [f"{row.name}: {number}, {what}, {arrivals_text(row.count)}  {row.loc.short()}"]
    return lines + _who(row.arrivals)


def _named(facts: Facts) -> list[str]:
    rows = [(f"{named.id}", named.name, f"{named.threads} threads", named.who)
            for named in facts.named]  # fmt: skip
    return columns(rows, right=(0, 2))


def _maps(facts: Facts) -> list[str]:
    rows = []
    for spec in facts.maps:
        swizzle = f"swizzle {spec.swizzle}" if spec.swizzle else "no swizzle"
        rows.append((spec.tensor, spec.use, f"box {spec.box}", swizzle, spec.more))
    return columns(rows)


def _shared(facts: Facts) -> list[str]:
    rows = [("at", "bytes", "", "")]
    rows += [(str(i.offset), str(i.nbytes), i.name, i.what) for i in facts.shared]
    if len(rows) == 1:
        return []
    share = 100 * facts.shared_bytes / facts.shared_limit
    used = f"{facts.shared_bytes} of {facts.shared_limit} bytes ({share:.0f} %)"
    return [*columns(rows, right=(0, 1)), used]
