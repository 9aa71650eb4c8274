"""The program that the harness starts with labgrid's Python: it borrows a place, says where its board is, and gives it
back.

labgrid brings a pyserial of its own, so it never comes into the harness's environment. This file and the folder `side`
need labgrid and the standard library, nothing else of ethos-hil. The two ways to use it:

    python -I labgrid_side.py serve HOST:PORT PARENT              # PARENT: id of the process whose end is its own
    python -I labgrid_side.py power HOST:PORT OWNER PLACE cycle   # OWNER: "host/user" that has the place
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Make the folder `side` importable by its name, but nothing else of the harness, and run its program."""
    for name, folders in {
        "ethos_hil": [],
        "ethos_hil.harness": [],
        "ethos_hil.harness.farm": [str(Path(__file__).absolute().parent)],
    }.items():
        package = ModuleType(name)
        package.__path__ = folders
        sys.modules[name] = package
    program = importlib.import_module("ethos_hil.harness.farm.side.program")
    sys.exit(program.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
