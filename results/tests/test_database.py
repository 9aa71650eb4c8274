"""Errors of the database that reads a history: the system's own, whoever met them."""

from __future__ import annotations

import errno
import os

import pytest

from ethos_hil.results.compaction.database import open_database


def test_an_error_of_the_system_is_the_system_s_also_where_duckdb_met_it() -> None:
    """DuckDB tells it in JSON within its own words, and names a file that no one asked for."""
    with pytest.raises(OSError, match="No space") as caught, open_database() as database:
        database.execute("COPY (SELECT 1) TO '/dev/full' (FORMAT csv)")
    assert (caught.value.errno, caught.value.strerror) == (errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_database_without_memory_is_out_of_memory() -> None:
    with pytest.raises(MemoryError, match="Out of Memory"), open_database() as database:
        database.execute(
            "SET memory_limit = '1MB'; SET temp_directory = ''; SET threads = 1; "
            "CREATE TABLE large AS SELECT range AS number, random() AS other FROM range(3000000)"
        )
