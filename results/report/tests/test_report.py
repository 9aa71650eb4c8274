"""What a report says, read as a file: no browser is needed for it."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.record import BenchInfo, Metric, Record, RunInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.gate.account import Account, Accounted, JudgedResults, Problem, take_account
from ethos_hil.results.gate.change import VERDICT, Effect, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.history import History
from ethos_hil.results.report.failures import of_failure
from ethos_hil.results.report.report import report
from ethos_hil.results.report.reproduce import Links, accept, also_accepted, bundle, rerun
from ethos_hil.results.report.summary import summary
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.trend import NightScale, step_plot, trend
from ethos_hil.results.run_results import RunResults, read_results
from ethos_hil.results.since import FACTS, PastNight, Since
from ethos_hil.results.store import RunFolder, StoredRecord
from ethos_hil.results.subject import Names, subject_of
from ethos_hil.results.testing.one_name import OTHERS, TEST, net
from ethos_hil.results.testing.synthetic_year import keep


def stood(*records: Record) -> tuple[Accounted, ...]:
    return take_account(RunResults("n", "", records)).tests


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return samples.history(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def page(history: History) -> bytes:
    return samples.page_of_night(history)


def parts(page: bytes) -> dict[str, str]:
    """The sections of a report as HTML with a line for each thing in them; what is before them is the top."""
    body = page.decode().replace("<wbr>", "").partition("<body")[2].partition("<script")[0]
    body = re.sub(r"\s*(<(?:figure|p|li|h\d|details|dl|svg|path|circle)\b|<tr|<div class)", r"\n\1", body)
    body = re.sub(r"\n\s*", "\n", re.sub("<tr.*?</tr>", lambda row: " ".join(row[0].split()), body, flags=re.DOTALL))
    pieces = re.split('<section id="([a-z]+)"', body)
    return dict(zip(["top", *pieces[1::2]], pieces[::2], strict=True))


def words(page: bytes) -> str:
    """What a report says, without its elements."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", "".join(parts(page).values()))).split())


def headline(account: Account, new: int | None = None) -> str:
    """The small line above the sentence, which has the colour."""
    result = summary(RunResults("n", "", ()), account, new, Names(()))
    return f"{'green' if result.passed else 'red'}: {result.status}"


def headlines() -> Iterator[str]:
    """One thing is counted once, and only what is worse is worse."""
    night = samples.night()
    comparison = samples.comparison(night.records)
    bad = samples.failed(night.records[0], FailureKind.MISMATCH, "wrong")
    worse = replace(comparison.changes[0], subject=subject_of(bad), metric=VERDICT, before="verified", after="failed")
    failing = take_account(RunResults("n", "", (bad, night.records[11])))
    good = take_account(RunResults("n", "", tuple(samples.suite_of(4))))
    repaired = replace(worse, word=Word.IMPROVED, before="failed: mismatch", after="verified", effect=Effect.WARN)
    tiny = replace(comparison.changes[0], before=4_469_496.0, after=4_469_504.0)
    edited = replace(worse, word=Word.INCOMPARABLE, before="verified", after="verified")
    yield headline(failing, 1)
    yield headline(failing, 0)
    yield headline(failing.with_comparison(replace(comparison, changes=(worse,))))
    yield from (headline(good.with_comparison(replace(comparison, changes=(of,)))) for of in (repaired, tiny, edited))


def test_a_headline_counts_each_thing_once_and_only_what_is_worse_as_worse(recorded: Recorded) -> None:
    recorded.check("\n".join(headlines()))


@pytest.mark.parametrize("part", ["top", "new", "failures", "changes", "history", "matrix", "models", "environment"])
def test_a_night_is_shown_as_it_was_recorded(page: bytes, part: str, recorded: Recorded) -> None:
    """All that a report says, with its pictures and the words for them."""
    recorded.check(parts(page)[part])


GOOD = tuple(samples.suite_of(3))
SKIPPED = tuple(replace(record, verdict=Verdict.SKIPPED) for record in GOOD)
RED: dict[str, tuple[tuple[Record, ...], dict[str, Any]]] = {
    "a problem": (GOOD, {"problems": [Problem("shard 2/2 is missing")]}),
    "a target that is down": (GOOD, {"down": {"virtual": "qemu did not start"}}),
    "nothing": ((), {}),
    "nothing but skips": (SKIPPED, {}),
}


@pytest.mark.parametrize("what", RED)
def test_a_night_that_is_not_green_has_no_green_headline_and_says_why_at_the_top(what: str, recorded: Recorded) -> None:
    records, why = RED[what]
    results = RunResults("n", "2026-11-25T02:00:00+00:00", records)
    top = parts(report(JudgedResults.of(results, take_account(results, **why))))["top"]
    assert 'class="status bad"' in top
    recorded.check(top)


def test_changes_have_a_command_that_accepts_them_and_nothing_else(tmp_path: Path, recorded: Recorded) -> None:
    """And no folder of the machine that ran; one in quarantine for another cause is told."""
    night = samples.night()
    folders = (tmp_path / "a run",)
    page = report(replace(night, folders=folders), samples.comparison(night.records), baseline="/ci/build/b.jsonl")
    text = "".join(parts(page).values())
    assert "/ci/build" not in text
    assert str(tmp_path) not in text
    assert f"ethos-hil bundle &#39;a run&#39; {night.records[11].label}" in text
    told = re.compile("^<p.*(ethos-hil accept|run folder|another cause)")
    recorded.check("\n".join(filter(told.match, text.splitlines())))


def reruns() -> Iterator[Record]:
    """Records of a board, and of benchmarks, which `bench` runs again."""
    net = samples.model()
    yield replace(net, model="/ci/build/nets/net.py:net", target=TargetInfo("board:/ci/build/bench.toml", "board", ""))
    point = replace(
        net,
        bench=BenchInfo("mine", "conv_56", "conv3x3", (), "grids/mine.toml:12"),
        question=Question("conv_56", npu="ethos-u85-256", memory_mode="Sram_Only", system_config="Mine"),
        executions=3,
    )
    ours = BenchInfo("default", "conv_56", "conv3x3")
    yield point
    yield replace(point, question=replace(point.asked, repeat=6, clock="400MHz"), bench=ours)
    yield replace(point, bench=ours, executions=0)
    yield replace(point, bench=BenchInfo("models", "net.py:net", "model"), executions=0)


def test_commands_run_it_again_and_have_no_folder_of_the_machine_that_ran(recorded: Recorded) -> None:
    recorded.check("\n".join(map(rerun, reruns())))
    test = samples.failed(samples.suite_of(1)[0], FailureKind.DELEGATION, "nothing is on the NPU")
    early = (replace(test, npu="", target=TargetInfo("none", kind, "")) for kind in ("none", "host"))
    recorded.check("\n".join(f"{rerun(each)}, {bundle('run', each)}" for each in (test, *early)), "without an NPU")


def test_a_pattern_takes_all_labels_and_tells_which_others() -> None:
    labels = [f"suites/t.py::test_[{at}]_BI" for at in range(12)]
    assert accept("run", "b", labels).endswith("--only 'suites/t.py::test_[[]*]_BI'")
    others = ["suites/t.py::test_[x]_BI", "suites/t.py::test_BI"]
    assert also_accepted(labels, [*labels, *others]) == ("suites/t.py::test_[x]_BI",)
    assert also_accepted(labels[:1], labels) == ()


def test_advice_stands_in_the_models_page() -> None:
    results = RunResults("n", "", (samples.model(),))
    assert "What to do about it" not in words(report(results))
    advised = words(report(results, advise=lambda record: [f"Prune {record.label} <b>."]))
    assert "What to do about it Prune net.py:net <b>." in advised


def test_an_old_failure_says_since_when_with_links(tmp_path: Path, recorded: Recorded) -> None:
    """Links that are none of the web are none at all."""
    good = samples.suite_of(1)[0]
    bad = samples.failed(good, FailureKind.MISMATCH, "wrong")
    *_, last = keep(tmp_path, [good], [bad], [bad], [bad], name="n", first=datetime(2026, 11, 10, 2))
    page = parts(report(last, None, History(tmp_path), links=Links("https://git.example/c/{commit}")))
    recorded.check(page["new"] + page["failures"])
    plain = report(last, None, History(tmp_path), links=Links("javascript:alert({commit})", "http://x/{job}"))
    assert set(re.findall(r'href="(.)', plain.decode())) == {"#"}


def test_changes_are_sorted_by_size_and_small_ones_are_small_print(recorded: Recorded) -> None:
    """+0.00018 % is not as high as +20 %, whatever the gate says of it."""
    night = samples.night()
    comparison = samples.comparison(night.records)
    sizes = {11: 1_200_000.0, 13: 1_000_018.0, 14: 1_005_000.0}
    changes = tuple(
        replace(comparison.changes[0], subject=subject_of(night.records[at]), before=1e6, after=after, rows=())
        for at, after in sizes.items()
    )
    recorded.check(parts(report(night, replace(comparison, changes=changes)))["changes"])


def test_a_very_long_name_does_not_make_a_very_large_file() -> None:
    assert len(report(samples.hostile("x" * 200_000))) < 300_000


def test_records_that_cannot_be_read_and_shards_that_differ_are_told(tmp_path: Path) -> None:
    folders = []
    for shard in ("1/2", "2/2"):
        folder = RunFolder(tmp_path, command=["x"], shard=shard)
        for record in samples.suite_of(1) * 2:
            folder.append(record)
        folders.append(folder.path)
    manifest = folders[1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"numpy": "', '"numpy": "9.'))
    (folders[0] / "records-1.jsonl").write_text('{"half')
    text = words(report(read_results(folders)))
    assert "records-1.jsonl:1 cannot be read: not a complete record" in text
    assert "the shards had different versions of numpy" in text
    assert "1 test ran more than once; the worst attempt that could be made counts" in text
    assert "shard 2/2" in text


def test_words_of_a_comparison_that_are_shown_are_all_there_are() -> None:
    """A new word must find its place in the sentence."""
    from ethos_hil.results.report import feed, summary

    assert {*summary._TOLD, Word.UNCHANGED} == set(Word)
    assert set(feed.TITLES) == set(feed.Cause)


def test_what_a_record_lacks_is_no_error() -> None:
    """A profile without a timeline or costs has a table all the same; a time may be none."""
    net = samples.model()
    assert net.profile is not None
    bare = replace(net, profile=replace(net.profile, timeline=(), costs={}, buffers=(), cpu=(), clock_hz=0.0))
    assert "Conv3" in words(report(RunResults("n", "", (bare,))))
    assert b"yesterday" in report(RunResults("n", "yesterday", (replace(net, metrics=(), ops=()),)))


EXTREMES: dict[type, tuple[Any, ...]] = {
    int: (0, -1, 1, 10**18, -(10**18), 10**400),
    float: (0.0, -1.0, 1e308, math.nan, math.inf, 1e-300),
    str: ("", "x\x00", "\ud800", "a::b::c", ":", "x:99999999999999999999"),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All values of a JSON document that are no object or list, with the way to each."""
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inside, (*path, key))
    else:
        yield path, value


def make_absurd(document: Any, chance: random.Random) -> None:
    """Put a value that no record should have into a JSON document."""
    path, value = chance.choice([leaf for leaf in leaves(document) if type(leaf[1]) in EXTREMES])
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = chance.choice(EXTREMES[type(value)])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("benchmark", [False, True])
def test_records_with_absurd_values_are_shown_or_refused(seed: int, benchmark: bool) -> None:
    chance = random.Random(seed)
    clock = StatedClock(400e6, "stated", 100e6)
    records = samples.FRONT if benchmark else samples.night().records[-6:]
    documents = [json.dumps((replace(record, clock=clock) if benchmark else record).to_json()) for record in records]
    shown = 0
    for _ in range(60):
        data = [json.loads(document) for document in (documents if benchmark else [chance.choice(documents)])]
        for _ in range(8):
            make_absurd(chance.choice(data), chance)
        try:
            html = report(RunResults("n", "2026-11-25T02:00:00+00:00", tuple(map(Record.from_json, data))))
        except (UsageError, ValueError):
            continue
        shown += b'id="benchmarks"' in html if benchmark else len(html) > 10_000
        assert not re.search(rb'(?:x|y|d)="[^"]*(?:nan|inf)', html)
    assert shown > 10


def test_a_failure_is_of_what_differs_from_the_last_good_run(recorded: Recorded) -> None:
    """Whose change it is, as far as the records say; a target that did not start is no one's code."""
    good = replace(samples.suite_of(1)[0], run=RunInfo("n1", "c" * 40))
    assert good.artifact is not None
    row = row_of(0, StoredRecord("n1", "", good))
    since = Since(None, PastNight("n1", datetime(2026, 11, 1)), 0, {name: str(row[name]) for name in FACTS})
    changes: dict[str, dict[str, Any]] = {
        "question": {"artifact": replace(good.artifact, question="e" * 64)},
        "versions": {"versions": {**good.versions, "ethos-u-vela": "5.2.0"}},
        "firmware": {"firmware_sha256": "7" * 64},
        "commit": {"run": RunInfo("n2", "d" * 40)},
        "nothing": {},
    }
    bad = (samples.failed(replace(good, **now), FailureKind.MISMATCH, "wrong") for now in changes.values())
    lines = [f"{what}: {of_failure(record, since)}" for what, record in zip(changes, bad, strict=True)]
    not_started = of_failure(samples.failed(good, FailureKind.NOT_LAUNCHED, "no"), Since(None, None, 0))
    recorded.check("\n".join([*lines, f"not started: {not_started}"]))


# Two of one name in a night are told apart, and never mixed.


PAIRS = {
    **{kind: (net(), OTHERS[kind]) for kind in ("scheme", "method", "system_config", "runner", "bench_case")},
    "board": tuple(replace(TEST, target=TargetInfo(f"board:{name}", "board", "corstone-300")) for name in ("a", "b")),
    "memory mode": (GOOD[0], replace(GOOD[2], memory_mode="Sram_Only")),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_one_that_fails_is_not_the_other(tmp_path: Path, kind: str, recorded: Recorded) -> None:
    """It failed for two nights, and was verified before; the other one is verified, with its own cycles."""
    one, other = (
        replace(record, metrics=(Metric("npu_cycles", cycles, "cycles", "modelled"),), ops=())
        for record, cycles in zip(PAIRS[kind], (1000, 2000), strict=True)
    )
    bad, worse = (samples.failed(record, FailureKind.MISMATCH, "3 of 8 elements differ") for record in (one, other))
    nights = ([one, other], [bad, other], [one, worse], [one, worse])
    *_, before, last = keep(tmp_path, *nights, name="n", first=datetime(2026, 11, 10, 2))
    sides = (observations(night.records) for night in (before, last))
    page = parts(report(last, compare_runs(*sides, names=(before.name, last.name)), History(tmp_path)))
    assert "npu_cycles of" not in page.get("history", "")
    recorded.check(page["failures"])
    recorded.check(page["matrix"].partition('<table id="grid"')[2], "matrix")


def test_two_that_nothing_tells_apart_are_two_rows() -> None:
    """Two models of a plan that both fail before they are compiled."""
    early = samples.failed(replace(net(), artifact=None, memory_mode="", metrics=(), ops=()), FailureKind.COMPILE, "no")
    both = tuple(replace(early, run=RunInfo("n", part=scheme)) for scheme in ("a8w8", "a16w8"))
    assert parts(report(RunResults("n", "", both)))["matrix"].count('<td class="F"') == 2


# The picture of a number over time, and what a history says where there is little in it.


_FIRST = datetime(2026, 11, 20, 2)


STEPS: dict[str, tuple[list[tuple[int, float]], tuple[float, ...]]] = {
    "far apart": ([(0, 1.0), (1, 2.0), (2, 3.0)], (0, 1, 10)),
    "each night": ([(0, 1.0), (1, 1.0), (2, 1.0)], (0, 1, 2)),
    "nights that are missing": ([(at, 1.0) for at in range(5)], (0, 1, 2, 5, 6)),
    "a night without the test": ([(0, 1.0), (2, 1.0)], (0, 1, 2)),
    "a hundredth of a percent": ([(0, 1_000_000.0), (1, 1_000_100.0)], (0, 1)),
    "a fifth": ([(0, 1_000_000.0), (1, 1_200_000.0)], (0, 1)),
    "one moment": ([(0, 0.0)], (0,)),
    "one moment twice": ([(0, 0.0), (1, 0.0)], (0, 0)),
}


@pytest.mark.parametrize("what", STEPS)
def test_steps_stand_where_they_were_in_time_with_gaps_where_nights_are_missing(what: str, recorded: Recorded) -> None:
    """And a change of a hundredth of a percent is not a cliff."""
    points, days = STEPS[what]
    plot = step_plot("n", points, NightScale([_FIRST + timedelta(days=day) for day in days]), [])
    recorded.check(str(plot).replace("><", ">\n<"))


RECORD = samples.suite_of(1)[0]
assert RECORD.artifact is not None
CYCLES = tuple(replace(of, value=12345.0) if of.name == "npu_cycles" else of for of in RECORD.metrics)
EDITED = replace(RECORD, artifact=replace(RECORD.artifact, question="e" * 64), metrics=CYCLES)
"""The model after an edit. That its question is another one does not make its cycles stand still."""


@pytest.mark.parametrize("nights", [(RECORD, EDITED), (RECORD,)], ids=["edited", "one night"])
def test_a_history_says_what_moved(tmp_path: Path, nights: tuple[Record, ...], recorded: Recorded) -> None:
    *_, last = keep(tmp_path, *([record] for record in nights), first=_FIRST)
    assert ("new" in parts(report(last, None, History(tmp_path)))) == (len(nights) > 1)
    result = trend(History(tmp_path))
    assert result is not None
    steps = [f"{plot.title}: {plot.steps}" for plot in result.plots]
    recorded.check("\n".join([f"{result.runs}, moved {result.moved}", *steps]))


def test_a_history_without_times_has_no_trend(tmp_path: Path) -> None:
    compact_records([StoredRecord("n", "", replace(RECORD, created=""))], tmp_path)
    assert trend(History(tmp_path)) is None
