"""Dependencies point downward only: the table of DESIGN.md section 3, enforced.

A layer is a package or module; the longest matching name decides to which layer a module belongs.
Each layer may import itself, the leaves, and what stands in its row.
"""

from __future__ import annotations

import sys

import pytest

from tests.project.source_tree import imports_of, package_modules

# Free of any dependency, so usable everywhere.
LEAVES = ["tiledsl.errors", "tiledsl.deadlocks", "tiledsl._version"]

IR = "tiledsl.codegen.ir"

MAY_IMPORT: dict[str, list[str]] = {
    # --- what a user sees
    "tiledsl": ["tiledsl"],  # `tiledsl/__init__.py` alone: the public names
    "tiledsl.kernel": ["tiledsl"],
    "tiledsl.binding": [
        "tiledsl.codegen",
        "tiledsl.frontend",
        "tiledsl.language",
        "tiledsl.runtime",
    ],
    "tiledsl.compiled": ["tiledsl.codegen"],
    "tiledsl.ptx": ["tiledsl.runtime"],
    "tiledsl.__main__": ["tiledsl.cli"],
    "tiledsl.cli": ["tiledsl.ptx"],
    "tiledsl.language": [IR],  # for dtypes and target names; no op is built there
    # --- Python source -> tile IR
    "tiledsl.frontend": ["tiledsl.language", IR],
    # --- tile IR -> PTX -> cubin
    "tiledsl.codegen": [],  # `codegen/__init__.py` and modules that have no row of their own
    "tiledsl.codegen.passes": [IR, "tiledsl.codegen.checks"],  # checks stand between passes
    "tiledsl.codegen.checks": [IR],
    "tiledsl.codegen.explain": [IR, "tiledsl.codegen.checks", "tiledsl.codegen.passes"],
    "tiledsl.codegen.nvptx": [IR],
    "tiledsl.codegen.assemble": [
        "tiledsl.codegen.ptx_lines",
        "tiledsl.codegen.ptxas_log",
        "tiledsl.codegen.toolkit",
    ],
    "tiledsl.codegen.ptxas_log": ["tiledsl.codegen.ptx_lines"],
    "tiledsl.codegen.ptx_lines": [],
    "tiledsl.codegen.toolkit": [],
    IR: [],
    # --- running it
    "tiledsl.runtime": ["tiledsl.codegen"],
    "tiledsl.runtime.emulator": [IR],
    "tiledsl.runtime.ptx_machine": [],  # an independent reading of PTX: no code of the lowering
    # --- leaves
    "tiledsl.errors": [],
    "tiledsl.deadlocks": ["tiledsl.errors"],
    "tiledsl._version": [],
}

# Which layers may talk to a library. Another library is not a dependency of tiledsl at all.
LIBRARIES: dict[str, list[str]] = {
    "llvmlite": ["tiledsl.codegen.nvptx", "tiledsl.runtime.ptx_machine"],
    "cuda": ["tiledsl.codegen.assemble", "tiledsl.codegen.toolkit", "tiledsl.runtime"],
    "numba": ["tiledsl.runtime", "tiledsl.runtime.emulator", "tiledsl.runtime.ptx_machine"],
    "numpy": [
        "tiledsl.cli",
        "tiledsl.frontend",
        "tiledsl.runtime",
        "tiledsl.runtime.emulator",
        "tiledsl.runtime.ptx_machine",
    ],
    "ml_dtypes": ["tiledsl.cli", "tiledsl.frontend", "tiledsl.runtime", "tiledsl.runtime.emulator"],
}


def layer_of(module: str) -> str | None:
    """The row of the table that ``module`` belongs to, if any."""
    if module == "tiledsl":
        return module
    # The row "tiledsl" is for the package's own `__init__` only: a new module needs its own row.
    rows = [row for row in MAY_IMPORT if row != "tiledsl" and within(module, row)]
    return max(rows, key=len, default=None)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def violations(module: str, layer: str) -> list[str]:
    """Each import of ``module`` that ``layer`` does not allow, as ``file:line imports what``."""
    ours = [layer, *LEAVES, *MAY_IMPORT[layer]]
    found = []
    for imported in imports_of(package_modules()[module]):
        library = imported.target.split(".")[0]
        if library == "tiledsl":
            # What a row allows, it allows with everything below.
            fine = any(within(imported.target, allowed) for allowed in ours)
        else:
            fine = library in sys.stdlib_module_names or layer in LIBRARIES.get(library, [])
        if not fine:
            found.append(f"{imported.file}:{imported.line} imports {imported.target}")
    return found


def test_every_module_belongs_to_a_layer() -> None:
    homeless = [module for module in package_modules() if layer_of(module) is None]
    assert not homeless, f"add a row to MAY_IMPORT for {', '.join(homeless)}"


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_point_downward(layer: str) -> None:
    found = [
        line
        for module in package_modules()
        if layer_of(module) == layer
        for line in violations(module, layer)
    ]
    ours = ", ".join([*MAY_IMPORT[layer], *LEAVES])
    libraries = ", ".join(name for name, layers in LIBRARIES.items() if layer in layers) or "none"
    assert not found, f"{layer} may import {ours}; libraries: {libraries}\n" + "\n".join(found)
