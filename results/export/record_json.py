"""A record as JSON, as `ethos-hil run --json` writes it (docs/formats.md)."""

from __future__ import annotations

import json

from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import Exporter


def write(record: Record) -> str:
    """Return the record as indented JSON."""
    return json.dumps(record.to_json(), indent=2, allow_nan=False) + "\n"


EXPORTER = Exporter("json", ".json", "the whole record, as `ethos-hil run --json` writes it", write)
