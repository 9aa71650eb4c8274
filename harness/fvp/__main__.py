"""`python -m harness.fvp EXECUTABLE ARGUMENTS`."""

from __future__ import annotations

import sys

from harness.fvp.launcher import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
