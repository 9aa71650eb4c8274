"""Nights after which someone edited a model or repaired a test, and what a gate has to say.

Each takes the records of a good night, with `MODELS`, and a source of chance, and returns the records of the night
before, those of the night after, and every change that is to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any

from ethos_hil.base.record import Accuracy, Record
from ethos_hil.base.record_context import BenchInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.gate.change import VERDICT, Cause, Word
from ethos_hil.results.testing.seeded_regressions import (
    EARLY,
    Expected,
    Night,
    RecordChange,
    artifact_of,
    mismatch,
    other,
)

Edit = Callable[[Night, Random], tuple[Night, Night, Expected]]
KEYWORDS, NET, SWEPT = "nets/kws.py:keywords", "nets/net.py:net", "nets/wake.py:wake"
"""A model in two schemes, one in two cases of a grid, and one in two memory modes."""


def with_models(night: Night) -> Night:
    """Return a night with models in it: of one name in two schemes, in two cases, and in two memory modes."""
    return [
        *night,
        _model(night[0], KEYWORDS, "a8w8"),
        _model(night[1], KEYWORDS, "a16w8"),
        _model(night[2], NET, "a8w8", bench=BenchInfo("grid", "net8", "net")),
        _model(night[3], NET, "a8w8", bench=BenchInfo("grid", "wide8", "net"), verdict=Verdict.COMPILED_ONLY),
        _model(night[4], SWEPT, "a8w8"),
        _model(night[5], SWEPT, "a8w8", memory_mode="Sram_Only"),
    ]


def _model(record: Record, model: str, scheme: str, **changes: Any) -> Record:
    artifact = replace(artifact_of(record), scheme=scheme, question=other(artifact_of(record).question))
    changed = {"artifact": artifact, "accuracy": (_sqnr(31.204), _sqnr(29.996)), "npu": "ethos-u55-128", **changes}
    return replace(record, test=None, model=model, **changed)


def _sqnr(value: float | None) -> Accuracy:
    return Accuracy("output 0", "PyTorch, float64", value, 0.999, 0.1, (0,), 1.0, 0.9)


def _chosen(night: Night, model: str, **fields: object) -> Record:
    """Return the record of a model, of a scheme, case or memory mode."""
    (record,) = (
        record for record in night
        if record.label == model and all(getattr(record, name) == value for name, value in fields.items())
    )  # fmt: skip
    return record


def _of_scheme(night: Night, scheme: str) -> Record:
    return next(record for record in night if record.label == KEYWORDS and artifact_of(record).scheme == scheme)


def _of_case(night: Night, case: str) -> Record:
    return next(record for record in night if record.bench is not None and record.bench.case == case)


def _replaced(night: Night, old: Record, *new: Record) -> Night:
    return [record for at in night for record in (new if at is old else (at,))]


def _edited(
    facts: tuple[str, ...] = (), metrics: Mapping[str, float] = MappingProxyType({}), **changes: Any
) -> Callable[[Record], Record]:
    """Return what makes a record that of an edited model."""
    artifact = changes.pop("artifact", {})

    def edit(record: Record) -> Record:
        question = other(artifact_of(record).question)
        return RecordChange(facts, metrics, {"question": question, **artifact}, changes).of(record)

    return edit


_EDITED = (Word.EDITED, Cause.QUESTION)
_ALL = ("tosa", "weights", "stream")


def _edit(edit: Callable[[Record], Record], *metrics: str, word: tuple[Word, Cause] = _EDITED) -> Edit:
    """Return an edit of a model in one of its two schemes, after which these numbers are other ones."""

    def change(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
        old = _of_scheme(night, chance.choice(("a8w8", "a16w8")))
        return night, _replaced(night, old, edit(old)), {(KEYWORDS, name): word for name in (VERDICT, *metrics)}

    return change


def _case_edited(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    old = _of_case(night, chance.choice(("net8", "wide8")))
    new = _edited(_ALL, {"sram_used": 1.2})(old)
    return night, _replaced(night, old, new), dict.fromkeys([(NET, VERDICT), (NET, "sram_used")], _EDITED)


def _case_renamed(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    old = _of_case(night, "net8")
    new = replace(old, bench=BenchInfo("grid", "narrow8", "net"))
    return night, _replaced(night, old, new), {(NET, VERDICT): (Word.CHANGED, Cause.NAME)}


def _test_edited(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    """A test's scheme is a part of what it asks."""
    old = chance.choice([record for record in night if record.test is not None])
    new = _edited(_ALL, {"npu_cycles": 2}, artifact={"scheme": "a16w8"})(old)
    return night, _replaced(night, old, new), dict.fromkeys([(old.label, VERDICT), (old.label, "npu_cycles")], _EDITED)


def _scheme_moved(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    old = _of_scheme(night, "a16w8")
    new = _edited(_ALL, {"npu_cycles": 1.5}, artifact={"scheme": "a16w8, a8w8 in head"})(old)
    moved = (Word.INCOMPARABLE, Cause.SCHEME)
    return night, _replaced(night, old, new), {(KEYWORDS, VERDICT): moved, (KEYWORDS, "npu_cycles"): moved}


def _mode_moved(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    old = _chosen(night, SWEPT, memory_mode="Sram_Only")
    new = RecordChange(("stream",), {"npu_cycles": 0.35}, record={"memory_mode": "Dedicated_Sram"}).of(old)
    moved = (Word.INCOMPARABLE, Cause.MEMORY_MODE)
    return night, _replaced(night, old, new), {(SWEPT, VERDICT): moved, (SWEPT, "npu_cycles"): moved}


def _repaired(broken: Callable[[Record], Mapping[str, Any]], cause: Cause = Cause.NONE) -> Edit:
    """Return the repair of a test that was broken in the night before."""

    def repair(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
        whole = chance.choice([record for record in night if record.test is not None])
        before = _replaced(night, whole, replace(whole, **broken(whole)))
        return before, night, {(whole.label, VERDICT): (Word.IMPROVED, cause)}

    return repair


def _broken_question(record: Record) -> dict[str, Any]:
    artifact = replace(artifact_of(record), question=other(artifact_of(record).question))
    return {**mismatch(record), "artifact": artifact}


def _model_repaired(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    """It failed early in one memory mode, which it knew, and not in the other."""
    whole = _chosen(night, SWEPT, memory_mode=chance.choice(("Shared_Sram", "Sram_Only")))
    broken = replace(whole, **{**EARLY, "memory_mode": whole.memory_mode})
    return _replaced(night, whole, broken), night, {(SWEPT, VERDICT): (Word.IMPROVED, Cause.NONE)}


def _scheme_repaired(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    """One of two schemes failed before it knew its scheme."""
    whole = _of_scheme(night, chance.choice(("a8w8", "a16w8")))
    return _replaced(night, whole, replace(whole, **EARLY)), night, {(KEYWORDS, VERDICT): (Word.IMPROVED, Cause.NONE)}


def _point_lost(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    """A program that could be made cannot be made any more, and knows for what."""
    old = _of_case(night, "wide8")
    new = replace(old, **{name: EARLY[name] for name in ("verdict", "failure", "metrics", "ops", "artifact")})
    return night, _replaced(night, old, new), {(NET, VERDICT): (Word.REGRESSED, Cause.NONE)}


EDITS: Mapping[str, Edit] = MappingProxyType({
    "edited weights":
        _edit(_edited(("weights", "stream"), {"npu_cycles": 0.99}, accuracy=(_sqnr(30.5),)), "npu_cycles", "sqnr_db"),
    "edited code with fewer blocks":
        _edit(_edited(_ALL, {"npu_cycles": 0.85, "sram_used": 0.8}, artifact={"npu_ops": 2, "pte_bytes": 3072}),
              "npu_cycles", "sram_used", "npu_ops", "pte_bytes"),
    "edited inputs": _edit(
        lambda record: replace(record, inputs_sha256=other(record.inputs_sha256), accuracy=(_sqnr(25.0),)), "sqnr_db",
        word=(Word.EDITED, Cause.INPUTS)),
    "edited calibration": _edit(_edited(("weights", "stream"), accuracy=(_sqnr(12.0),)), "sqnr_db"),
    "an edit that loses the accuracy": _edit(_edited(_ALL, accuracy=()), "sqnr_db"),
    "an edit that changes nothing measurable": _edit(_edited(("tosa",))),
    "an edit after which the answer is wrong": _edit(
        lambda record: replace(_edited(_ALL, {"npu_cycles": 0.5})(record), **mismatch(record)),
        word=(Word.REGRESSED, Cause.QUESTION)),
    "an edit of one of two cases": _case_edited,
    "a renamed case": _case_renamed,
    "an edited test, in another scheme": _test_edited,
    "another scheme of a model": _scheme_moved,
    "another memory mode of a model": _mode_moved,
    "a test that failed before it was lowered is repaired": _repaired(lambda _: EARLY),
    "a test that failed early, but knew its target, is repaired":
        _repaired(lambda record: {**EARLY, "target": record.target, "memory_mode": record.memory_mode}),
    "a mismatch is repaired": _repaired(mismatch),
    "a mismatch is repaired by an edit": _repaired(_broken_question, Cause.QUESTION),
    "a model in one of two memory modes is repaired": _model_repaired,
    "a model in one of two schemes is repaired": _scheme_repaired,
    "a program that cannot be made any more": _point_lost,
})  # fmt: skip
"""By what was done."""
