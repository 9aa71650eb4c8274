"""What a report says, read as a file: no browser is needed for it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.results.account import Accounted, take_account
from ethos_hil.results.gate.word import Word
from ethos_hil.results.history import History
from ethos_hil.results.record import Record, RunInfo
from ethos_hil.results.report.report import report
from ethos_hil.results.report.reproduce import accept, also_accepted
from ethos_hil.results.report.tests import samples
from ethos_hil.results.run_results import RunResults, read_results
from ethos_hil.results.standing import Standing
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.quarantine import in_quarantine
from ethos_hil.results.tests.profiled import HOSTILE
from ethos_hil.results.verdict import FailureKind, Verdict


class Reader(HTMLParser):
    """An HTML file as a tree would have it: its text, and its elements with their attributes."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "dt", "dd", "p", "li", "summary", "figcaption"):
            self.texts.append(" ")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, with single blanks."""
        return " ".join("".join(self.texts).split())

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        """The attributes of all elements of a name."""
        return (attributes for name, attributes in self.elements if name == tag)


def stood(*records: Record) -> tuple[Accounted, ...]:
    return take_account(RunResults("n", "", records)).tests


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return samples.history(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def page(history: History) -> bytes:
    night = samples.night()
    comparison = samples.comparison(night.records)
    return report(in_quarantine(night, samples.QUARANTINED, comparison, FailureKind.FAULT), comparison, history)


@pytest.fixture(scope="module")
def text(page: bytes) -> str:
    return Reader(page).text


def test_a_sentence_says_how_the_night_went(text: str) -> None:
    assert "5 tests are red, 3 tests got worse" in text
    assert "24 verified, 4 failed, 1 unverified; 2 regressed, 1 missing, 14 improved, 1 changed, 1 new against" in text


def test_without_a_comparison_there_are_no_changes_and_no_word_of_any() -> None:
    found = Reader(report(RunResults("n", "2026-11-25T02:00:00+00:00", tuple(samples.suite_of(6)))))
    assert "Every answer that was asked for is right 6 verified." in found.text
    assert not {"changes", "failures", "history"} & {attributes.get("id") for _, attributes in found.elements}


def test_a_run_that_verified_nothing_is_not_green() -> None:
    skipped = [replace(each, verdict=Verdict.SKIPPED) for each in samples.suite_of(3)]
    for records in ((), skipped):
        made = report(RunResults("n", "2026-11-25T02:00:00+00:00", tuple(records)))
        assert "Nothing was verified 0 verified." in Reader(made).text
        assert b'class="status bad"' in made


def test_what_never_ran_and_what_moved_is_at_the_top(text: str) -> None:
    assert "What moved besides ethos-u-vela 5.1.0 became 5.2.0" in text
    assert "1 needs an FVP" in text
    assert "1 was in nightly-0412 and is not here" in text


def test_failures_that_say_the_same_are_shown_once(text: str) -> None:
    shown = text[text.index("Known, and not counted") - 2500 : text.index("Known, and not counted")]
    assert shown.count("no answer within") == 1
    assert "2 more with the same failure" in text
    assert "3 of 8 elements differ" in text
    assert "look at it" in text
    assert "first element [0, 1]: 3 expected, 4 found" in text
    assert "output 0 (int8, [1, 8]): 3 of 8 elements differ from tosa_reference_model, by 4 at most" in text
    assert "booted fault at 0x1234" in text
    assert "issue/123" in text
    assert "flaky since Monday" in text


def test_a_failure_has_the_command_that_shows_it_again(text: str) -> None:
    assert "pytest suites/ops/test_operator00.py::test_operator00_case00_U65_BI" in text
    assert "ethos-hil run net.py:net --npu ethos-u55-128 --memory-mode Shared_Sram" in text


def test_changes_are_grouped_by_cause(text: str) -> None:
    assert "The command stream: ethos-u-vela 5.1.0 became 5.2.0 3 subjects: 2 regressed, 1 changed" in text
    assert "The timing model: 2222 became 3333 14 subjects: 14 improved" in text
    assert "npu_cycles (modelled) regressed 1,000 1,100 +10.0 %" in text
    assert "0.5 % allowed" in text
    assert "Conv2D at net.py:8 in stem: 600 → 708 (+108, slower)" in text
    assert "and 3 other operations (+303)" in text
    assert "verdict changed aaaaaaaaaaaa bbbbbbbbbbbb" in text


def test_what_is_failing_is_open_and_the_rest_is_not(page: bytes) -> None:
    causes = [each for each in Reader(page).named("details") if each.get("class") == "item cause"]
    assert ["open" in each for each in causes] == [True, True, False, False]


def test_changes_have_a_command_that_accepts_them_and_nothing_else(tmp_path: Path) -> None:
    night = samples.night()
    folder = tmp_path / "a run"
    found = Reader(
        report(replace(night, folders=(folder,)), samples.comparison(night.records), baseline="b.jsonl")
    ).text
    label = night.records[11].test.id  # type: ignore[union-attr]
    assert f"ethos-hil accept '{folder}' --baseline b.jsonl --only {label}" in found
    assert f"ethos-hil bundle '{folder}' {label}" in found
    assert "--only 'suites/ops/test_operator00.py::test_operator00_case0*5_BI'" in found
    assert "it takes 3 more that changed for another cause" in found


def test_a_pattern_takes_all_labels_and_tells_which_others() -> None:
    labels = [f"suites/t.py::test_[{at}]_BI" for at in range(12)]
    assert accept(Path("run"), "b", labels).endswith("--only 'suites/t.py::test_[[]*]_BI'")
    others = ["suites/t.py::test_[x]_BI", "suites/t.py::test_BI"]
    assert also_accepted(labels, [*labels, *others]) == ("suites/t.py::test_[x]_BI",)
    assert also_accepted(labels[:1], labels) == ()


def test_the_matrix_has_letters_words_and_cycles(page: bytes) -> None:
    found = page.decode()
    assert '<td class="F"><b>F<i>ailed</i></b>' in found
    assert re.search(r'<td class="V"><b>V<i>erified</i></b>[\d,]+</td>', found)
    assert '<td class="D"><b>D<i>, known defect</i></b>' in found
    letters = {letter for row in Reader(page).named("tr") for letter in row.get("data-l") or ""}
    assert letters == set("VFUDQSC")


def test_a_model_has_its_operations_lines_memory_and_bounds(text: str) -> None:
    assert "What is in it then Tensor Written by Bytes input an input 1,000" in text
    assert "delegated 4 operators; 1 on the CPU: sort at net.py:40 (no kernel)" in text
    assert "conv2d, relu → CONV2D → Conv3" in text
    assert "590 cycles (modelled), 1.18 µs at 500 MHz" in text
    assert "delegate 0: start" in text
    assert "with npu00002" in text
    assert "Conv0 conv2d, relu CONV2D net.py:0 stem.conv1 100 16.9% Sram 1.13e+16 1,300" in text


def test_pictures_say_in_words_what_they_show(page: bytes) -> None:
    labels = [each["aria-label"] or "" for each in Reader(page).named("svg")]
    assert all(labels)
    assert any(label.startswith("NPU 1,270 to 1,530; DMA") or "DMA 1,100 to 1,200" in label for label in labels)
    assert any(re.fullmatch(r"8 runs: .*u85-256 [\d,]+ to [\d,.]+.*", label) for label in labels)
    assert any(label.startswith("npu_cycles of suites/ops") and "8 runs: from" in label for label in labels)


def test_estimates_stand_beside_counts_and_empty_cells_say_why(text: str) -> None:
    assert (
        "net.py:net u55-128 1 test 1,180 \N{MULTIPLICATION SIGN}2.00 590 not run on an FVP not run on a board" in text
    )
    assert "no estimate of Vela's" in text


def test_history_has_marks_for_what_changed_in_the_tools(text: str) -> None:
    assert "8 runs since 2025-01-01 02:00" in text
    assert "the timing model is another one (22222222 became 33333333)" in text
    assert "+25.0 %" in text
    assert "Verified Of night000 2025-01-01 02:00 30 30" in text


def test_nothing_but_our_style_and_script_may_run_and_nothing_may_load(page: bytes) -> None:
    found = page.decode()
    (policy,) = (each["content"] for each in Reader(page).named("meta") if "http-equiv" in each)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", found, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert " style=" not in found.replace(" style='", " style=")
    assert not [name for _, attributes in Reader(page).elements for name in attributes if name.startswith("on")]
    assert not re.search(r'(?:src|href)="(?!#)(?!\./)(?!\.\./)', found)


def test_what_has_markup_in_it_stays_text() -> None:
    text = f"<script>hit()</script><img src=x onerror=hit()> '\" {{{{ 7*7 }}}} {HOSTILE}"
    made = report(samples.hostile(text))
    found = Reader(made)
    plain = Reader(report(samples.hostile("plain")))
    assert [tag for tag, _ in found.elements if tag in ("script", "img", "style", "iframe")] == ["style", "script"]
    assert {tag for tag, _ in found.elements} == {tag for tag, _ in plain.elements}
    assert "<img src=x onerror=hit()>" in found.text
    assert "{{ 7*7 }}" in found.text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2028]", made.decode("utf-8"))
    assert r"\x1b[2J \u202e" in found.text


def test_a_very_long_name_does_not_make_a_very_large_file() -> None:
    assert len(report(samples.hostile("x" * 200_000))) < 300_000


def test_a_test_that_could_not_be_made_once_stands_as_its_other_attempt() -> None:
    good = samples.suite_of(1)[0]
    lost = samples.failed(good, FailureKind.TIMEOUT, "no answer")
    wrong = samples.failed(good, FailureKind.MISMATCH, "wrong")
    assert [each.standing for each in stood(lost, good)] == [Standing.VERIFIED]
    assert [each.standing for each in stood(lost, lost)] == [Standing.FAILED]
    assert [each.standing for each in stood(wrong, good)] == [Standing.FAILED]
    results = RunResults("n", "2026-11-25T02:00:00+00:00", (lost, good))
    assert "1 test ran more than once" in Reader(report(results)).text


def test_files_of_the_run_are_linked_from_where_the_report_is(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", command=["x"])
    for record in samples.suite_of(2):
        folder.append(replace(record, run=RunInfo("n")))
    odd = folder.path / "javascript:alert(1) & <b>.txt"
    odd.write_text("x")
    (folder.path / ".hidden").write_text("x")
    output = folder.path / "report.html"
    output.write_text("an old one")
    made = report(read_results([folder.path]), output=output)
    links = [str(each["href"]) for each in Reader(made).named("a") if not str(each["href"]).startswith("#")]
    assert links == ["./javascript%3Aalert%281%29%20%26%20%3Cb%3E.txt", "./manifest.json", *links[2:]]
    assert all((folder.path / link.replace("%3A", ":")).exists() for link in links[1:])
    assert hashlib.sha256(b"x").hexdigest() in made.decode()
    elsewhere = report(read_results([folder.path]), output=tmp_path / "report.html")
    assert f'href="./runs/{folder.path.name}/manifest.json"' in elsewhere.decode()


def test_records_that_cannot_be_read_and_shards_that_differ_are_told(tmp_path: Path) -> None:
    folders = []
    for shard in ("1/2", "2/2"):
        folder = RunFolder(tmp_path, command=["x"], shard=shard)
        for record in samples.suite_of(1):
            folder.append(record)
        folders.append(folder.path)
    manifest = folders[1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"numpy": "', '"numpy": "9.'))
    (folders[0] / "records-1.jsonl").write_text('{"half')
    found = Reader(report(read_results(folders))).text
    assert "records-1.jsonl:1 cannot be read: not a complete record" in found
    assert "the shards had different versions of numpy" in found
    assert "shard 2/2" in found


def test_words_of_a_comparison_that_are_shown_are_all_there_are() -> None:
    """A new word must find its place in the sentence."""
    from ethos_hil.results.report import feed, summary

    assert {*summary._TOLD, Word.UNCHANGED} == set(Word)
    assert set(feed.TITLES) == set(feed.Cause)


def test_a_profile_without_a_timeline_or_costs_has_a_table_all_the_same() -> None:
    one = samples.model()
    assert one.profile is not None
    bare = replace(one, profile=replace(one.profile, timeline=(), costs={}, buffers=(), cpu=(), clock_hz=0.0))
    found = Reader(report(RunResults("n", "", (bare,))))
    assert "Conv3" in found.text
    assert "Roofline" not in found.text


def test_an_empty_history_line_or_a_time_that_is_none_is_no_error() -> None:
    one = replace(samples.model(), metrics=(), ops=())
    assert b"yesterday" in report(RunResults("n", "yesterday", (one,)))


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


@pytest.mark.parametrize("seed", range(4))
def test_a_record_with_absurd_values_is_shown_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    documents = [json.dumps(record.to_json()) for record in samples.night().records[-6:]]
    shown = 0
    for _ in range(60):
        document = json.loads(chance.choice(documents))
        for path, value in chance.sample([each for each in leaves(document) if type(each[1]) in EXTREMES], 8):
            inside = document
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = chance.choice(EXTREMES[type(value)])
        try:
            made = report(RunResults("n", "2026-11-25T02:00:00+00:00", (Record.from_json(document),)))
        except ValueError:
            continue
        shown += len(made) > 10_000
    assert shown > 10
