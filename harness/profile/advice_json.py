"""The exporter of advice: what to do about a profile, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict

from ethos_hil.base.record import Record
from ethos_hil.harness.profile.advice import advice
from ethos_hil.results.export.exporter import Exporter, profile_of

SCHEMA_VERSION = 1


def write(record: Record) -> str:
    """Return all advice, the largest saving first.

    Raises:
        NotExportable: the record has no profile.
    """
    profile_of(record)
    found = {
        "schema_version": SCHEMA_VERSION,
        "model": record.model,
        "advice": [asdict(each) for each in advice(record)],
    }
    return json.dumps(found, indent=1) + "\n"


EXPORTER = Exporter("advice", ".advice.json", "what to do about a profile, and what it saves", write)
