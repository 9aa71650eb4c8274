"""`python -m ethos_hil.suites.lab PART ...`: the one entry point of the laboratory. The parts are in parts.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.parts import COMMAND, PARTS


def main(arguments: Sequence[str]) -> int | None:
    """Run a part with the arguments that follow its name, or list the parts."""
    name, *others = arguments or ("--help",)
    if name in ("--help", "-h"):
        sys.stdout.write(f"Usage: {COMMAND} PART [ARGUMENTS]...; PART --help has its options.\n\n")
        sys.stdout.writelines(f"  {name:12} {part.help}\n" for name, part in PARTS.items())
        return None
    if name not in PARTS:
        raise UsageError(f"the laboratory has no part {name!r}", hint=f"there are {', '.join(PARTS)}")
    status: int | None = PARTS[name].command().main(others, prog_name=f"{COMMAND} {name}", standalone_mode=False)
    return status


if __name__ == "__main__":
    from ethos_hil.harness.cli.main import guard  # not for workers, which import this module too

    guard(lambda: main(sys.argv[1:]))
