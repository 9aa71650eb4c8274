"""The outputs of a run as an archive of arrays, which `--expected` reads back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethos_hil.harness.link.outcome import Run
from ethos_hil.lowering.formats.array_archive import packed_arrays
from ethos_hil.lowering.program.output_names import archive_names


def outputs_archive(names: Sequence[str], runs: Sequence[Run]) -> bytes:
    """Return an .npz with one array for each output of a program.

    An array has the shape of its output. Where the program ran several times, it has one more leading axis: the
    executions in order, which are the input sets, each as often as it was repeated.

    Args:
        names: the names of the outputs.
        runs: the executions, in order; at least one.
    """
    columns = zip(*(run.outputs for run in runs), strict=True)
    arrays = [np.stack(column) if len(runs) > 1 else column[0] for column in columns]
    return packed_arrays(dict(zip(archive_names(names), arrays, strict=True)))
