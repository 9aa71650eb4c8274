"""Baselines and policies: what is accepted is kept as it was, and a damaged file is refused by its line."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.testing.recorded import Recorded, shown
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.compaction.run_file import compact
from ethos_hil.results.gate.baseline import accept, dumps, is_baseline, read_baseline
from ethos_hil.results.gate.change import Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.gate import side
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import read_policy
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.seeded_changes import CHANGES, EARLY, KEYWORDS, change, with_models
from ethos_hil.results.testing.synthetic_year import nights

NIGHT: list[Record] = [item.record for item in next(nights(1, count=1, tests=30))]
FAILED = replace(NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "1 of 4"))


def text(records: list[Record]) -> str:
    return dumps(accept((), observations(records)).observations)


def written(folder: Path, records: list[Record]) -> Path:
    path = folder / "baseline.jsonl"
    path.write_text(text(records))
    return path


SAMPLES = tuple(float(value) for value in range(100, 112))
BOARD = replace(NIGHT[0], metrics=(Metric("npu_cycles", 105, "cycles", "measured", SAMPLES),))
HALF = replace(NIGHT[1], metrics=(Metric("npu_cycles", 12.0, "cycles", "modelled"), Metric("x", 0.75, "", "vela")))
MODEL = replace(with_models(NIGHT)[-1], model="nets/gr\u00f6\u00dfe\u2028.py:net")


def test_a_baseline_is_a_line_for_each_number_in_ascii_and_is_read_as_it_was_written(
    tmp_path: Path, recorded: Recorded
) -> None:
    """Without wall times. Some characters end a line for Python, and no merge tool agrees on all of them."""
    records = [BOARD, HALF, NIGHT[2], MODEL]
    path = written(tmp_path, records)
    assert is_baseline(path)
    assert path.read_bytes().isascii()
    baseline = read_baseline(path)
    assert dumps(baseline) == path.read_text()
    by_label = {observation.subject.label: observation for observation in baseline}
    assert by_label[BOARD.label].numbers["npu_cycles", "measured"].samples == SAMPLES
    assert MODEL.label in by_label
    comparison = compare_runs(baseline, observations(records))
    assert (comparison.changes, comparison.passed, comparison.subjects) == ((), True, len(records))
    recorded.check(path.read_text())


def test_every_change_is_found_against_a_baseline_too(tmp_path: Path) -> None:
    """It has the digests, so the words and causes are those of two runs; what is accepted is told of none."""
    for what, seeded in CHANGES.items():
        before, after = map(observations, seeded(with_models(NIGHT)))
        accepted = accept((), before, failures=True).observations
        (tmp_path / "before.jsonl").write_text(dumps(accepted))
        expected = compare_runs(before, after).changes
        changes = compare_runs(read_baseline(tmp_path / "before.jsonl"), after).changes
        assert changes == tuple(replace(change, rows=()) for change in expected), what
        if what == "a test that differs within one night":
            continue  # no baseline can have both
        again = accept(accepted, after, failures=True, prune=True).observations
        assert compare_runs(again, after).changes == (), what
        known = compare_runs(before, after, baseline=after)
        assert known.passed, what
        assert [change.word for change in known.changes] == [Word.ACCEPTED] * len(expected), what


SCHEMES = [record for record in with_models(NIGHT) if record.label == KEYWORDS]
EARLY_ONE = replace(SCHEMES[0], **EARLY)
assert FAILED.test is not None
DECLARED = replace(FAILED, test=replace(FAILED.test, defect="docs/defects/vela-shared-bias.md"))
ELSEWHERE = [replace(record, firmware_sha256="5" * 64, timing_model="6" * 16) for record in NIGHT[:3]]
MOVED = change(metrics={"npu_cycles": 1 + 1e-9})(ELSEWHERE[0])
ACCEPTED: dict[str, tuple[list[Record], list[Record], dict[str, bool]]] = {
    "what is gone stays": (NIGHT[:3], NIGHT[1:3], {}),
    "what is gone is pruned": (NIGHT[:3], NIGHT[1:3], {"prune": True}),
    "a failure": (NIGHT[:3], [FAILED], {}),
    "a failure that is new": ([], [FAILED], {}),
    "a failure that is asked for": (NIGHT[:3], [FAILED], {"failures": True}),
    "a failure that is declared": ([], [DECLARED], {}),
    "what failed early and may be any of several": ([EARLY_ONE], SCHEMES, {}),
    "what failed early is pruned": ([EARLY_ONE], SCHEMES, {"prune": True}),
    "what a failure does not know is kept": (SCHEMES[:1], [EARLY_ONE], {"failures": True}),
    **{
        f"another {fact} with the same numbers": (NIGHT[:2], [NIGHT[0], change(fact)(NIGHT[1])], {})
        for fact in ("tosa", "weights", "stream")
    },
    "another firmware and timing model": (NIGHT[:3], ELSEWHERE, {}),
    "another firmware and timing model that moved a number": (NIGHT[:3], [MOVED, *ELSEWHERE[1:]], {}),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_only_what_is_asked_for_is_accepted_or_removed(what: str, recorded: Recorded) -> None:
    """What did not change keeps its lines, whatever ran it. A number that moved with a new firmware and timing model
    makes a diff of three lines: the number's, its subject's, and the environment's.
    """
    before, after, how = ACCEPTED[what]
    old = accept((), observations(before), failures=True).observations
    result = accept(old, observations(after), **how)
    lines = [f"{name}: {[subject.name for subject in getattr(result, name)]}"
             for name in ("updated", "added", "removed", "refused")]  # fmt: skip
    lines += [f"{of.subject.name}, {of.subject.memory_mode}: {of.verdict}" for of in result.observations]
    if not result.added and not result.removed:
        difference = difflib.ndiff(dumps(old).splitlines(), dumps(result.observations).splitlines())
        lines += [line for line in difference if line[0] in "+-"]
    recorded.check("\n".join(lines))


def _edited(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(text.splitlines()))


DAMAGE: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "another program's": lambda _: '{"a": 1}\n',
    "a newer version": lambda text: text.replace('baseline":1', 'baseline":2', 1),
    "cut short": lambda text: text[:-30],
    "a merge's conflict": _edited(lambda lines: [*lines[:5], "<<<<<<< HEAD", *lines[5:]]),
    "a number of another test": _edited(lambda lines: [*lines[:4], lines[-1], *lines[4:]]),
    "a number twice": _edited(lambda lines: [*lines[:5], lines[4], *lines[5:]]),
    "a number that is text": lambda text: text.replace(',"modelled",', ',"modelled","a",', 1),
    "another verdict": lambda text: text.replace('"verified"', '"fine"', 1),
    "a subject twice": lambda text: text + text.partition("\n")[2],
    "no subject": _edited(lambda lines: [lines[0], *lines[-3:]]),
    "no environment": _edited(lambda lines: [lines[0], *lines[2:]]),
    "a field that is gone": lambda text: text.replace('"verdict"', '"word"', 1),
    "too deep": lambda text: text + "[" * 100_000,
    "not text": lambda text: text.replace("cycles", "\udcff"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_baseline_is_refused_by_its_line(tmp_path: Path, what: str, recorded: Recorded) -> None:
    path = tmp_path / "baseline.jsonl"
    path.write_bytes(DAMAGE[what](text(NIGHT)).encode(errors="surrogateescape"))
    with pytest.raises(UsageError) as caught:
        read_baseline(path)
    message = re.sub("(not JSON|codec).*", r"\1 ...", caught.value.message)  # the rest is Python's
    recorded.check(f"{message}\n{caught.value.hint}".replace(str(tmp_path), "/here"))


POLICIES = {
    "one that is read": 'schema_version = 1\n[gate]\nimproved = "fail"\nedited = "accept"\n[[rule]]\n'
    'metric = "npu_cycles"\nallowed_percent = 0.5\neffects = {new = "ignore"}\n[aliases]\n"a" = "b"\n',
    "another key": "schema_version = 1\n[[rule]]\nmetrics = 'a'",
    "another word": "schema_version = 1\n[gate]\nworse = 'fail'",
    "another effect": "schema_version = 1\n[gate]\nregressed = 'maybe'",
    "a newer version": "schema_version = 2",
    "empty": "",
    "not TOML": "schema_version = ",
    "too deep": "schema_version = 1\na = " + 5000 * "[",
    "a long line": "schema_version = 1\n" + ".".join("a" * 50_000) + " = 1",
    "accepting what is accepted": "schema_version = 1\n[gate]\naccepted = 'accept'",
    "too few samples": "schema_version = 1\n[[rule]]\nleast_samples = 2",
    **{
        f"{name} of {value}": f"schema_version = 1\n[[rule]]\n{name} = {value}"
        for name in ("allowed_percent", "smallest_percent") for value in ("nan", "inf", "-inf", "-1")
    },
}  # fmt: skip


@pytest.mark.parametrize("what", POLICIES)
def test_a_policy_is_read_or_refused_with_the_place(tmp_path: Path, what: str, recorded: Recorded) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(POLICIES[what])
    try:
        answer = shown(read_policy(path))
    except UsageError as error:
        answer = f"{error.message}\n{error.hint}"
    recorded.check(answer.replace(str(tmp_path), "/here"))


def test_a_baseline_of_an_earlier_version_is_read_and_its_tests_keep_their_lines(tmp_path: Path) -> None:
    """It has neither case nor scheme; `accept` writes them for models, and nothing else changes."""
    # Before, what is about one model was one subject, so keep those of which there is one.
    old = [record for record in with_models(NIGHT) if record.label not in (KEYWORDS, "nets/net.py:net")]
    path = tmp_path / "old.jsonl"
    path.write_text(text(old).replace(',"scheme":"a8w8"', ""))
    assert '"scheme"' not in path.read_text()
    baseline = read_baseline(path)
    comparison = compare_runs(baseline, observations(old))
    assert (comparison.changes, comparison.passed, comparison.subjects) == ((), True, len(old))
    done = accept(baseline, observations(old))
    assert {subject.label for subject in done.updated} == {"nets/wake.py:wake"}
    assert (done.added, done.removed, dumps(done.observations)) == ((), (), text(old))


def test_all_kinds_of_sides_say_the_same_and_what_they_are(tmp_path: Path) -> None:
    """Last is the newest."""
    history = tmp_path / "history"
    for name, records in (("night1", NIGHT[:2]), ("night2", NIGHT)):
        folder = RunFolder(tmp_path / "runs", name=name)
        for record in records:
            folder.append(record)
        compact(folder.path, history)
    (lines,), baseline = map(str, folder.path.glob("*.jsonl")), str(written(tmp_path, NIGHT))
    names = {str(folder.path): "night2", str(tmp_path / "runs"): "night2", baseline: baseline, lines: lines,
             "night2": "night2", "last": "night2", str(history / "night2.parquet"): "night2"}  # fmt: skip
    sides = [side(text, history) for text in names]
    assert [side.name for side in sides] == list(names.values())
    assert [side.name for side in sides if side.accepted] == [baseline]
    for before, after in itertools.product(sides, sides):
        assert len(before.observations) == len(NIGHT)
        comparison = compare_runs(before.observations, after.observations)
        assert (comparison.changes, comparison.notes, comparison.passed) == ((), (), True), (before.name, after.name)
    with pytest.raises(UsageError, match="has no run night3"):
        side("night3", history)
