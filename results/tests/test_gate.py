"""The gate finds every regression of a list, by the right word and cause, and nothing else; equal nights are quiet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.gate import Side, gate
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.seeded_changes import EARLY, EDITS, KEYWORDS, REGRESSIONS, with_models
from ethos_hil.results.testing.synthetic_year import nights

TESTS = 90


def night(seed: int = 1) -> list[Record]:
    """The records of a good night."""
    return with_models([item.record for item in next(nights(seed, count=1, tests=TESTS))])


NIGHT = night()


def compared(before: Sequence[Record], after: Sequence[Record], policy: Policy | None = None) -> RunComparison:
    return compare_runs(observations(before), observations(after), policy=policy or Policy())


def outcomes(comparison: RunComparison) -> dict[tuple[str, str], tuple[Word, Cause]]:
    return {(change.subject.label, change.metric): (change.word, change.cause) for change in comparison.changes}


def only(comparison: RunComparison) -> Change:
    (change,) = comparison.changes
    return change


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", [*REGRESSIONS, *EDITS])
def test_each_regression_edit_and_repair_is_called_so_and_nothing_else_is_found(what: str, seed: int) -> None:
    before, after, expected = {**REGRESSIONS, **EDITS}[what](list(NIGHT), random.Random(seed))
    comparison = compared(before, after)
    assert outcomes(comparison) == expected
    assert sum(comparison.counts.values()) > TESTS * 10
    check_values(comparison, before, after)


FAILING = {Word.REGRESSED, Word.MISSING, Word.INCOMPARABLE, Word.UNSTABLE}


def check_values(comparison: RunComparison, before: Sequence[Record], after: Sequence[Record]) -> None:
    """Check that a change has the numbers of the records, and the effect of its word."""
    sides = [observations(records) for records in (before, after)]
    for change in comparison.changes:
        if change.metric != VERDICT and change.before is not None and change.after is not None:
            values = [{number.value for observation in side if observation.subject.label == change.subject.label
                       for (name, _), number in observation.numbers.items() if name == change.metric}
                      for side in sides]  # fmt: skip
            assert change.before in values[0]
            assert change.after in values[1]
            assert change.before != change.after or change.cause is Cause.PROVENANCE
        moved = change.word is Word.INCOMPARABLE and change.metric != VERDICT and change.cause is not Cause.PROVENANCE
        fails = change.word in FAILING and not moved
        assert change.effect is (Effect.FAIL if fails else Effect.WARN)
    assert comparison.passed == all(change.effect is Effect.WARN for change in comparison.changes)


def test_a_number_that_an_edit_brings_is_part_of_the_edit() -> None:
    before, after, _ = EDITS["edited code with fewer blocks"](list(NIGHT), random.Random(0))
    (edited,) = {change.subject for change in compared(before, after).changes}
    comparison = compared(before, [replace(record, metrics=(*record.metrics, Metric("more", 1.0, "", "modelled")))
                              if record.label == edited.label else record for record in after])  # fmt: skip
    words = {change.subject == edited: change.word for change in comparison.changes if change.metric == "more"}
    assert words == {True: Word.EDITED, False: Word.NEW}, "the model's other scheme was not edited"


def edited(record: Record, **changes: object) -> Record:
    assert record.artifact is not None
    return replace(record, artifact=replace(record.artifact, question="e" * 64), **changes)  # type: ignore[arg-type]


def test_an_edit_explains_no_number_of_another_kind() -> None:
    """Another provenance, another unit, and a number that differs within the run fail as without the edit."""
    cycles, *rest = NIGHT[0].metrics
    for other, word in (
        (replace(cycles, provenance="vela"), Word.INCOMPARABLE),
        (replace(cycles, unit="beats"), Word.INCOMPARABLE),
    ):
        comparison = compared([NIGHT[0]], [edited(NIGHT[0], metrics=(other, *rest))])
        assert {change.metric: (change.word, change.effect) for change in comparison.changes} == {
            VERDICT: (Word.EDITED, Effect.WARN), "npu_cycles": (word, Effect.FAIL)
        }  # fmt: skip
    twice = [edited(NIGHT[0], metrics=(replace(cycles, value=cycles.value + at), *rest)) for at in (1, 2)]
    comparison = compared([NIGHT[0]], twice)
    assert {change.metric: change.word for change in comparison.failing} == {"npu_cycles": Word.UNSTABLE}


def test_numbers_of_an_edit_after_a_wrong_answer_and_of_a_move_that_is_ignored_are_not_shown() -> None:
    broken = ended(Verdict.FAILED, FailureKind.FAULT)
    slower = edited(broken, metrics=(Metric("npu_cycles", 1, "cycles", "modelled"),))
    assert only(compared([broken], [slower])).metric == VERDICT
    moved = replace(NIGHT[0], memory_mode="Sram_Only", metrics=(Metric("npu_cycles", 1, "cycles", "modelled"),))
    for effect, count in ((Effect.WARN, 2), (Effect.IGNORE, 0)):
        comparison = compared([NIGHT[0]], [moved], Policy(effects={**Policy().effects, Word.INCOMPARABLE: effect}))
        assert (comparison.passed, len(comparison.changes)) == (True, count)
    wrong = replace(moved, verdict=Verdict.FAILED, failure=Failure(FailureKind.FAULT, "no"))
    assert only(compared([NIGHT[0]], [wrong])).effect is Effect.FAIL


@pytest.mark.parametrize("unknown", ["memory_mode", "system_config", "soc", "target", "runner", "scheme"])
def test_each_field_that_an_early_failure_does_not_know_fits_anything(unknown: str) -> None:
    """One by one; and a right answer knows all but its scheme."""
    (whole,) = observations(NIGHT[:1])
    whole = replace(whole, subject=replace(whole.subject, **dict.fromkeys(("runner", "system_config", "scheme"), "x")))
    nothing = "none" if unknown == "target" else ""
    open_one = replace(whole.subject, **{unknown: nothing})
    early = replace(whole, subject=open_one, verdict="failed: compile", question="", inputs="", numbers={})
    assert [change.word for change in compare_runs([early], [whole]).changes] == [Word.IMPROVED]
    assert [change.word for change in compare_runs([whole], [early]).changes] == [Word.REGRESSED]
    right = replace(whole, subject=open_one)
    words = {change.word for change in compare_runs([right], [whole]).changes}
    assert words == (set() if unknown == "scheme" else {Word.INCOMPARABLE})


WORST_FIRST = (Verdict.FAILED, Verdict.SKIPPED, Verdict.COMPILED_ONLY, Verdict.UNVERIFIED, Verdict.VERIFIED)


@pytest.mark.parametrize("old", WORST_FIRST)
@pytest.mark.parametrize("new", WORST_FIRST)
def test_a_verdict_that_gets_worse_has_regressed_whatever_it_was(old: Verdict, new: Verdict) -> None:
    before, after = (ended(verdict, FailureKind.INTERNAL) for verdict in (old, new))
    comparison = compared([before], [after])
    if old is new:
        assert comparison.changes == ()
        return
    worse = WORST_FIRST.index(new) < WORST_FIRST.index(old)
    assert only(comparison).word is (Word.REGRESSED if worse else Word.IMPROVED)
    assert comparison.passed is not worse
    kind = ended(old, FailureKind.FAULT)
    if before.failure is not None:
        assert only(compared([before], [kind])).word is Word.CHANGED


def ended(verdict: Verdict, kind: FailureKind) -> Record:
    fine = verdict in (Verdict.VERIFIED, Verdict.COMPILED_ONLY)
    return replace(NIGHT[0], verdict=verdict, failure=None if fine else Failure(kind, "no"))


def test_a_declared_defect_is_worse_than_an_answer_that_is_right_and_than_nothing_else() -> None:
    assert NIGHT[0].test is not None
    failed = ended(Verdict.FAILED, FailureKind.MISMATCH)
    declared = replace(failed, test=replace(NIGHT[0].test, defect="docs/defects/vela-shared-bias.md"))
    assert only(compared([NIGHT[0]], [declared])).word is Word.REGRESSED
    assert only(compared([declared], [NIGHT[0]])).word is Word.IMPROVED
    assert compared([failed], [declared]).changes == compared([declared], [failed]).changes == ()
    for verdict in WORST_FIRST[1:-1]:
        other = ended(verdict, FailureKind.CAPABILITY)
        assert only(compared([other], [declared])).word is Word.CHANGED
        assert only(compared([declared], [other])).word is Word.CHANGED


def test_what_failed_early_and_may_be_one_of_several_is_paired_with_none() -> None:
    """A model in two schemes could not be exported: its failures are one, and the repair is not a lost test."""
    schemes = [record for record in NIGHT if record.label == KEYWORDS]
    early = replace(schemes[0], **EARLY)
    comparison = compared([early], schemes)
    assert sorted(change.word for change in comparison.changes) == [Word.MISSING, Word.NEW, Word.NEW]
    assert comparison.passed
    broken = compared(schemes, [early])
    assert sorted(change.word for change in broken.changes) == [Word.MISSING, Word.MISSING, Word.NEW]
    assert not broken.passed


def test_the_accuracy_of_an_unedited_model_warns_and_its_last_digits_do_not_count() -> None:
    (model, *_) = (record for record in NIGHT if record.label == KEYWORDS)
    digits = replace(model, accuracy=tuple(replace(entry, sqnr_db=entry.sqnr_db + 1e-9) for entry in model.accuracy))  # type: ignore[operator]
    assert compared([model], [digits]).changes == ()
    lower = replace(model, accuracy=tuple(replace(entry, sqnr_db=12.0) for entry in model.accuracy))
    change = only(compared([model], [lower]))
    assert (change.word, change.effect, change.before, change.after) == (Word.REGRESSED, Effect.WARN, 30.0, 12.0)
    assert only(compared([lower], [model])).word is Word.IMPROVED
    none = replace(model, accuracy=())
    assert compared([none], [model]).changes == ()  # runs of earlier versions do not have it
    edited = replace(none, artifact=replace(none.artifact, question="e" * 64))  # type: ignore[type-var]
    assert only(compared([edited], [model])).metric == VERDICT
    assert only(compared([model], [none])).effect is Effect.WARN
    equal = replace(model, accuracy=tuple(replace(entry, sqnr_db=float("inf")) for entry in model.accuracy))
    assert only(compared([model], [equal])).sentence == "sqnr_db 30 became inf"


@pytest.mark.parametrize(
    ("metric", "before", "after", "sentence"),
    [
        ("npu_cycles", 37912.0, 13188.0, "npu_cycles 37,912 became 13,188 (-65.2 %)"),
        ("npu_cycles", 1e6, 1e6 + 1, "npu_cycles 1,000,000 became 1,000,001 (+0.0001 %)"),
        ("npu_cycles", 0.0, 5.0, "npu_cycles 0 became 5"),
        ("cpu_instructions", 16141.0, None, "cpu_instructions 16,141 is missing"),
        ("cpu_instructions", None, 16141.0, "cpu_instructions 16,141 is new"),
        (VERDICT, "verified", "failed: mismatch", "verdict verified became failed: mismatch"),
        (VERDICT, "verified", "verified", "verdict verified as before"),
        (VERDICT, "verified", None, "verdict verified is missing"),
        (VERDICT, "1" * 16, "2" * 16, f"stream {'1' * 16} became {'2' * 16}"),
    ],
)  # fmt: skip
def test_a_change_is_a_sentence(metric: str, before: float | str, after: float | str, sentence: str) -> None:
    """Without None and without a float where people count."""
    subject = observations(NIGHT[:1])[0].subject
    change = Change(Word.CHANGED, subject, metric, "modelled", "", before, after, Cause.STREAM, "", Effect.WARN)
    assert change.sentence == sentence


def test_fifty_equal_nights_raise_no_alarm() -> None:
    """Wall times, run names and times of creation differ."""
    chance = random.Random(7)
    before = NIGHT
    for number in range(50):
        created = f"2026-02-{number % 28 + 1:02}T02:00:00+00:00"
        shuffled = chance.sample(before, len(before))
        after = [replace(record, created=created, metrics=tuple(_later(record, chance))) for record in shuffled]
        comparison = compared(before, after)
        assert (comparison.changes, comparison.notes, comparison.passed) == ((), (), True)
        assert set(comparison.counts) == {Word.UNCHANGED}
        before = after


def _later(record: Record, chance: random.Random) -> Iterator[Metric]:
    """Yield a record's metrics on another night: wall times are other ones."""
    for metric in record.metrics:
        host = metric.provenance == "host"
        yield replace(metric, value=metric.value * chance.uniform(0.2, 5)) if host else metric


def test_a_subject_is_called_by_what_tells_it_from_others() -> None:
    subject = observations(NIGHT[:1])[0].subject
    names = [replace(subject, label="net", case=case, scheme=scheme).name
             for case, scheme in (("", ""), ("wide", ""), ("wide", "a16w8"))]  # fmt: skip
    assert names == ["net", "net (wide)", "net (wide, a16w8)"]


def test_numbers_of_a_wrong_answer_do_not_count() -> None:
    broken = replace(NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.FAULT, "a fault"))
    slower = replace(broken, metrics=(Metric("npu_cycles", 1, "cycles", "modelled"),))
    assert compared([broken], [slower]).changes == ()


def test_a_renamed_test_has_its_own_change_and_those_of_its_numbers() -> None:
    assert NIGHT[0].test is not None
    cycles, *rest = NIGHT[0].metrics
    another = replace(NIGHT[0], test=replace(NIGHT[0].test, id="another"))
    quiet = compared([NIGHT[0]], [another])
    assert [(change.word, change.metric) for change in quiet.changes] == [(Word.CHANGED, VERDICT)]
    numbers = len(observations([NIGHT[0]])[0].numbers) - sum(metric.provenance == "host" for metric in NIGHT[0].metrics)
    assert quiet.counts == {Word.CHANGED: 1, Word.UNCHANGED: numbers}
    slower = compared([NIGHT[0]], [replace(another, metrics=(replace(cycles, value=cycles.value * 2), *rest))])
    assert {change.metric for change in slower.changes} == {VERDICT, "npu_cycles"}
    failed = replace(another, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "no"))
    assert [change.word for change in compared([NIGHT[0]], [failed]).changes] == [Word.REGRESSED, Word.CHANGED]


def test_notes_say_what_is_different_of_both_sides_where_both_know_it() -> None:
    observation = observations(NIGHT[:1])[0]

    def notes(before: dict[Cause, str], after: dict[Cause, str], old: dict[str, str], new: dict[str, str]) -> list[str]:
        sides = [
            replace(observation, facts=facts, versions=versions) for facts, versions in ((before, old), (after, new))
        ]
        return list(compare_runs(sides[:1], sides[1:]).notes)

    here, there = {Cause.FIRMWARE: "1.0"}, {Cause.FIRMWARE: "1.1"}
    assert notes(here, there, {}, {}) == ["firmware 1.0 became 1.1"]
    assert notes(here, here, {}, {}) == notes(here, {}, {}, {}) == notes({}, there, {}, {}) == []
    old, new = {"torch": "2.12", "vela": "5.1"}, {"torch": "2.13", "vela": "5.1"}
    assert notes({}, {}, old, new) == ["torch 2.12 became 2.13"]
    assert notes({}, {}, old, {"vela": "5.1"}) == ["torch 2.12 became none"]
    assert notes({}, {}, {}, new) == notes({}, {}, old, {}) == notes({}, {}, old, old) == []


def test_only_some_of_the_tests_are_compared_and_that_leaves_some() -> None:
    first, second, third = (Side(name, observations(NIGHT[:count])) for name, count in (("a", 3), ("b", 2), ("c", 3)))
    labels = [observation.subject.label for observation in first.observations]
    (gone,) = {observation.subject.label for observation in first.observations} - {
        observation.subject.label for observation in second.observations
    }
    assert {change.subject.label: change.word for change in gate(first, second).changes} == {gone: Word.MISSING}
    assert gate(first, second, partial=True).passed
    assert not gate(first, second, only=[gone, "no such test"]).passed
    assert not gate(first, second, only=[f"{gone[:-1]}?"]).passed
    there = next(label for label in labels if label != gone)
    comparison = gate(first, second, only=[there])
    assert (comparison.passed, comparison.subjects) == (True, 1)
    with pytest.raises(UsageError, match="no test or model has 'no such test' in its name"):
        gate(first, second, only=["no such test"])
    assert {change.word for change in gate(first, second, baseline=second).changes} == {Word.ACCEPTED}
    assert {change.word for change in gate(first, second, baseline=third).changes} == {Word.MISSING}
    assert (gate(first, baseline=third).before, gate(first, baseline=third).after) == ("c", "a")


def test_a_part_of_the_tests_misses_nothing() -> None:
    before, after = observations(NIGHT), observations(NIGHT[:9])
    assert not compare_runs(before, after).passed
    assert compare_runs(before, after, partial=True).changes == ()
    first = replace(
        after[0], numbers={key: number for key, number in after[0].numbers.items() if key[0] != "npu_cycles"}
    )
    (lost,) = compare_runs(
        before, (first, *after[1:]), partial=True
    ).changes  # of a test that ran nothing may be missing
    assert (lost.word, lost.metric, lost.subject) == (Word.MISSING, "npu_cycles", first.subject)


def test_a_comparison_as_json_has_all_words_and_changes() -> None:
    _, bad, _ = REGRESSIONS["a lost delegation"](list(NIGHT), random.Random(0))
    comparison = compared(NIGHT, bad)
    data = comparison.to_json()
    assert data["counts"].keys() == set(Word)
    assert [change["metric"] for change in data["changes"]] == [change.metric for change in comparison.changes]
    assert data["changes"][0]["subject"]["label"] == comparison.changes[0].subject.label
    assert all(change.metric != VERDICT for change in comparison.changes)


def test_a_run_that_lost_a_record_does_not_pass(tmp_path: Path) -> None:
    """What is lost may be in neither of the two runs: only the selection knows of it."""
    (records,) = ([item.record for item in items] for items in nights(count=1, tests=2))
    folders = []
    for night in (records[:1], records[:1]):
        folder = RunFolder(tmp_path, command=["x"])
        for record in night:
            folder.append(record)
        folders.append(folder.path)
    assert gate(*folders).passed
    assert records[0].test is not None
    Selection("", tests=(Selected(records[0].label, "a"), Selected("test_lost_BI", "a"))).write(folders[1])
    comparison = gate(*folders)
    assert not comparison.passed
    assert comparison.failing == ()
    (gap,) = comparison.gaps
    assert gap.startswith("M test_lost_BI on none: internal: it was chosen and has no record")
    assert gate(folders[1], folders[0]).passed, "the run before may lack what it will"
    path = next(folders[0].glob("records-*.jsonl"))
    path.write_bytes(path.read_bytes() + bytes(100))
    (gap,) = gate(folders[1], folders[0]).gaps
    assert f"{path}:2 cannot be read" in gap
