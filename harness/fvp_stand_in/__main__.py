"""The entry point: `python -m ethos_hil.harness.fvp_stand_in EXECUTABLE ARGUMENTS`."""

from __future__ import annotations

import sys

from ethos_hil.harness.fvp_stand_in.launcher import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
