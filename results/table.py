"""Records as a pandas table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ethos_hil.results.store import StoredRecord

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "created", "model", "npu", "target", "verdict", "failure", "executions", "npu_cycles", "provenance")


def frame(stored: Iterable[StoredRecord]) -> pd.DataFrame:
    """Return one row per record, in the given order. `npu_cycles` is for one execution, missing where none were
    counted.
    """
    import pandas as pd

    rows = []
    for item in stored:
        cycles = item.record.metric("npu_cycles")
        rows.append(
            (
                item.run,
                item.created,
                item.record.model,
                item.record.npu,
                item.record.target.name,
                item.record.verdict,
                item.record.failure.kind if item.record.failure else "",
                item.record.executions,
                None if cycles is None else int(cycles.value),
                "" if cycles is None else cycles.provenance,
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"npu_cycles": "Int64", "executions": "Int64"})
