"""``python -m tiledsl``: see ``tiledsl/cli``."""

from __future__ import annotations

import sys

from tiledsl.cli import main

if __name__ == "__main__":
    sys.exit(main())
