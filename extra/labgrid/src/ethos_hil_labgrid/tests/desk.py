"""Run a farm of two bench boards to try things on, with lines as slow as real ones, and say how it is reached."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil_labgrid.desk_farm import BOARD, desk_farm, labgrid_environment

if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ethos-hil-farm-")))
        boards = [stack.enter_context(BenchBoard()) for _ in range(2)]
        farm = stack.enter_context(desk_farm(labgrid_environment(), folder, boards))
        lines = [f"export {name}={shlex.quote(value)}" for name, value in farm.variables.items()]
        lines.append(f"# --target labgrid:board1, --target labgrid:board={BOARD}; Ctrl-C ends the farm")
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
