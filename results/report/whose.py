"""Since when something is as it is, and whose change made it so: the first who may have, as far as the records say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.base.plain_text import count_of
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import NOT_ATTEMPTED
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.since import PastNight, Since
from ethos_hil.results.store import StoredRecord


@dataclass(frozen=True)
class ToldSince:
    """Since when.

    Attributes:
        new: whether it was otherwise in the run before.
        first: the first run in which it was so; None where that is tonight's.
        last: the last run in which it was otherwise; None where the history has none.
        nights: for how many runs it has been so, with tonight's.
        spread: what to say where not all tests of a group are so since one run.
    """

    new: bool
    first: PastNight | None
    last: PastNight | None
    nights: str
    spread: str = ""


def tell_since(stretches: Sequence[Since | None]) -> ToldSince | None:
    """Return since when tests that belong together are so: the longest of them; None where nothing is known of one."""
    known = [stretch for stretch in stretches if stretch is not None]
    if not known:
        return None
    longest = max(known, key=lambda stretch: stretch.runs)
    others = sum(stretch.runs < longest.runs for stretch in known)
    spread = f"{count_of(others, 'other')} for fewer nights" if others else ""
    return ToldSince(longest.new, longest.first, longest.last, count_of(longest.runs + 1, "night"), spread)


class Whose(StrEnum):
    """Who made a change."""

    MODEL = "the model was edited"
    UPSTREAM = "an upstream version"
    OURS = "our code"
    BOARD = "the board, target or machine"
    SETTINGS = "other settings"
    UNKNOWN = "not known"


_OF_CAUSE: Mapping[Cause, Whose] = {
    Cause.QUESTION: Whose.MODEL,
    Cause.INPUTS: Whose.MODEL,
    Cause.NAME: Whose.MODEL,
    Cause.MEMORY_MODE: Whose.SETTINGS,
    Cause.SYSTEM_CONFIG: Whose.SETTINGS,
    Cause.NPU: Whose.SETTINGS,
    Cause.PLACE: Whose.SETTINGS,
    Cause.SCHEME: Whose.SETTINGS,
    Cause.PROVENANCE: Whose.SETTINGS,
    Cause.HOST: Whose.BOARD,
    Cause.BOARD: Whose.BOARD,
    Cause.TARGET: Whose.BOARD,
    Cause.TIMING_MODEL: Whose.OURS,
    Cause.FIRMWARE: Whose.OURS,
}
_VERSIONS = ("ethos-u-vela", "executorch", "torch", "torchao", "tosa-tools", "fvp")
_OURS = {"lowering": "our lowering", "timing_model": "the timing model", "firmware": "the firmware",
         "commit": "the commit"}  # fmt: skip


def of_cause(cause: Cause, detail: str) -> Whose:
    """Return who made a change with a cause of the gate's.

    Args:
        cause: the first thing that differs.
        detail: the same in words.
    """
    whose = _OF_CAUSE.get(cause)
    if whose is not None:
        return whose
    if any(f"{name} " in detail for name in _VERSIONS) and " became " in detail:
        return Whose.UPSTREAM
    if "Vela's arguments" in detail:
        return Whose.SETTINGS
    return Whose.OURS if "our lowering" in detail else Whose.UNKNOWN


def of_failure(record: Record, since: Since) -> str:
    """Return who made a test fail, with what is different from the last run in which it was right; "" where none is.

    Args:
        record: tonight's.
        since: since when it fails; only what failed tonight for the first time is compared with the run before.
    """
    if record.kind in NOT_ATTEMPTED:
        return str(Whose.BOARD)
    if since.last is None or not since.new:
        return ""
    now, before = row_of(0, StoredRecord("", "", record)), since.facts
    edited = [name for name in ("question", "inputs") if _differ(before.get(name), now[name])]
    if edited:
        return str(Whose.MODEL)
    old, new = _versions(before.get("versions", "")), _versions(str(now["versions"]))
    moved = [f"{name} {old[name]} became {new[name]}" for name in _VERSIONS if _differ(old.get(name), new.get(name))]
    if moved:
        return f"{Whose.UPSTREAM} ({', '.join(moved)})"
    ours = [text for name, text in _OURS.items() if _differ(before.get(name), now[name])]
    if ours:
        return f"{Whose.OURS} ({' and '.join(ours)} changed)"
    return f"{Whose.UNKNOWN} (model, versions, firmware and commit are those of {since.last.run})"


def _differ(old: str | None, new: object) -> bool:
    return bool(old) and bool(new) and old != new


def _versions(text: str) -> Mapping[str, str]:
    try:
        versions = json.loads(text or "{}")
    except ValueError:
        return {}
    return versions if isinstance(versions, dict) else {}
