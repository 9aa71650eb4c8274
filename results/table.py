"""Records as a pandas table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ethos_hil.results.gate.account import attempt_of, part_of
from ethos_hil.results.store import StoredRecord

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "record", "created", "model", "method", "case", "profile", "npu", "memory_mode", "system_config",
           "scheme", "target", "soc", "part", "attempt", "verdict", "failure", "executions", "npu_cycles",
           "provenance")  # fmt: skip
_WHERE_SEVERAL = ("record", "method", "case", "profile", "system_config", "scheme", "soc", "part", "attempt")
"""Columns that tell a reader nothing where all rows have the same in them."""


def frame(stored: Iterable[StoredRecord]) -> pd.DataFrame:
    """Return one row per record, in the given order, with `COLUMNS`. `record` is its number in its run, and
    `npu_cycles` is for one execution, missing where none were counted.
    """
    import pandas as pd

    counted: Counter[str] = Counter()
    rows = []
    for item in stored:
        counted[item.run] += 1
        record = item.record
        cycles = record.metric("npu_cycles")
        rows.append(
            (
                item.run,
                counted[item.run],
                item.created,
                record.model,
                record.method,
                record.bench.case if record.bench is not None else "",
                record.test.profile if record.test is not None else "",
                record.npu,
                record.memory_mode,
                record.system_config,
                record.artifact.scheme if record.artifact is not None else "",
                record.target.name,
                record.target.soc,
                part_of(record),
                attempt_of(record),
                record.verdict,
                record.kind or "",
                record.executions,
                None if cycles is None else int(cycles.value),
                "" if cycles is None else cycles.provenance,
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"npu_cycles": "Int64", "executions": "Int64"})


def for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `frame` without the columns that have one value throughout, and with no two equal rows."""
    left_out = [name for name in _WHERE_SEVERAL if name == "record" or table[name].nunique() < 2]
    shorter = table.drop(columns=left_out)
    return table.drop(columns=left_out[1:]) if shorter.duplicated().any() else shorter
