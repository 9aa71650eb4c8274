"""Broken hardware for tests: an NPU whose every job writes zeros where it should write results."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np

from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine


class Zeros(Engine):
    """The real NPU, but all its results in memory are overwritten with zeros."""

    def run(self, job: NpuJob) -> JobResult:
        """Run the job, then overwrite its results."""
        result = super().run(job)
        program = self._npu.decode(self._fetch(job))
        for number, extent in program.extents.items():
            if extent.write_end > extent.write_begin:
                size = extent.write_end - extent.write_begin
                place = self._memory.locate(job.bases[number] + extent.write_begin)
                self._memory.write(place, np.zeros(size, np.uint8).tobytes())
        return result


_LAUNCHER = """#!/bin/sh
exec {python} -c '
import sys
from ethos_hil.harness.fvp_stand_in.launcher import main
from ethos_hil.harness.fvp_stand_in.tests.zeros import Zeros
sys.exit(main("{executable}", sys.argv[1:], Zeros))
' "$@"
"""


def install_zeros(folder: Path) -> None:
    """Write launchers like those of `ethos_hil.harness.fvp_stand_in.launcher`, with this NPU."""
    folder.mkdir(parents=True, exist_ok=True)
    for executable in MODELS:
        path = folder / executable
        path.write_text(_LAUNCHER.format(python=shlex.quote(sys.executable), executable=executable))
        path.chmod(0o755)
