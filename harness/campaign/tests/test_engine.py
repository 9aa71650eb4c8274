"""The engine: killed at any moment and resumed, a campaign is one that no one killed; what is lost is red and named."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import is_settled
from ethos_hil.base.record import Record, RunInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.harness.campaign.engine import ASKED_AGAIN, CampaignCrew, may_repeat, read_more
from ethos_hil.harness.campaign.place import CampaignAnswers, OpenRun, RunPlace
from ethos_hil.harness.campaign.planned import Planned, share_of
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.campaign.run_folder import BENCH, EVALUATE, NIGHTLY, STATE, read_state
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.campaign.tests.cheap import CREW, HERE, KILLING, answer_to, ask, jobs_of, plan_of, subject_of
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.run_results import read_results
from ethos_hil.results.store import RunFolder

NAMES = tuple(f"question {number}" for number in range(40))


def facts(folder: Path) -> Counter[tuple[str, str, str]]:
    return Counter((record.name, record.within.planned, str(record.verdict)) for record in records_of(folder))


def start(root: Path, how: str) -> subprocess.Popen[bytes]:
    # Not as `-m`: a worker imports a job's class by the name of its module.
    program = "from ethos_hil.harness.campaign.tests.cheap import main; main()"
    return subprocess.Popen([sys.executable, "-c", program, how, str(root), "one", *NAMES])


def written(root: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (root / "one").glob("records-*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [CREW, HERE])
def test_a_campaign_that_is_killed_at_random_moments_is_an_undisturbed_one_in_the_end(tmp_path: Path, how: str) -> None:
    chance = random.Random(how)
    plan = plan_of(*NAMES)
    ask(plan, tmp_path / "undisturbed", "one", here=how == HERE)
    whole = facts(tmp_path / "undisturbed/one")
    assert set(whole.values()) == {1}
    assert len(whole) == len(NAMES)
    for kill in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        process = start(tmp_path, how)
        enough = min(written(tmp_path) + chance.randrange(12), len(NAMES) - 1)
        until = time.monotonic() + 120
        while written(tmp_path) < enough and process.poll() is None:  # at any moment of a line, too
            assert time.monotonic() < until
            time.sleep(chance.uniform(0, 0.01))
        process.send_signal(kill)
        process.wait(60)
    assert start(tmp_path, how).wait(120) == 0
    assert facts(tmp_path / "one") == whole
    assert read_state(tmp_path / "one").whole
    kept = read_more(tmp_path / "one")
    assert set(kept) == ({planned.digest for planned in plan} if how == HERE else set())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of lines that need not survive a power cut."""
    monkeypatch.setattr("os.fsync", lambda _: None)


OF_EACH = pytest.mark.parametrize("source", [BENCH, EVALUATE, NIGHTLY])
"""As a scan's, the questions of an evaluation differ in what the source adds."""


@OF_EACH
@pytest.mark.usefixtures("no_waiting")
def test_fifty_identical_campaigns_have_one_account(tmp_path: Path, source: str) -> None:
    plan = plan_of(*NAMES[:20], as_in=source)
    accounts = set()
    for number in range(50):
        answers = answered(tmp_path / str(number), plan, plan)
        accounts.add((answers.account.sentence, tuple(answers.by_digest), answers.problems))
    assert accounts == {("20 verified; green", tuple(planned.digest for planned in plan), ())}


def answered(root: Path, plan: tuple[Planned, ...], asked: tuple[Planned, ...], name: str = "one") -> CampaignAnswers:
    """Return the answers to a plan of a run folder in which only some of it was answered."""
    folder = RunFolder(root, name=name)
    for planned in asked:
        folder.append(answer_to(planned), part=planned.part, planned=planned.digest)
    return OpenRun((folder.path,)).answers(plan)


@OF_EACH
@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("seed", range(20))
def test_of_seeded_regressions_each_is_red_once(tmp_path: Path, seed: int, source: str) -> None:
    chance = random.Random(seed)
    bad = set(chance.sample(NAMES, 1 + seed % 3))
    kinds = chance.choices((FailureKind.MISMATCH, FailureKind.FAULT, FailureKind.INTERNAL), k=len(NAMES))
    names = [f"{kind} of {name}" if name in bad else name for name, kind in zip(NAMES, kinds, strict=True)]
    plan = plan_of(*names, as_in=source)
    account = answered(tmp_path, plan, plan).account
    assert len(account.tests) == len(NAMES)
    wanted = {planned.digest for planned, name in zip(plan, NAMES, strict=True) if name in bad}
    assert {test.record.within.planned for test in account.tests if test.red} == wanted
    assert len(account.red) == len(bad)


def test_what_is_planned_and_has_no_answer_of_its_own_is_missing_for_every_reader(tmp_path: Path) -> None:
    """The digest counts: the same model, asked with other options, is another question."""
    plan = plan_of(*NAMES[:3])
    other = Planned(plan[2].question.but(npu="ethos-u85-256"), plan[2].name)
    assert other.digest != plan[2].digest
    answers = answered(tmp_path, plan, (*plan[:2], other))
    assert answers.lost == plan[2:]
    assert [test.name for test in answers.account.tests if test.standing is Standing.MISSING] == ["question 2"]
    assert not answers.whole
    assert not answers.account.green


@pytest.mark.slow
def test_shards_are_the_whole_and_a_lost_file_of_records_is_red_and_named(tmp_path: Path) -> None:
    plan = plan_of(*NAMES)
    for number in (1, 2):
        ask(plan, tmp_path / f"machine-{number}", "night", shard=Shard(number, 2))
    place = RunPlace(tmp_path, merge=(tmp_path,))
    with place.opened(subject_of(plan)) as run:
        assert run.answers(plan).whole
    (lost,) = (tmp_path / "machine-2").rglob("records-*.jsonl")
    lost.unlink()
    with place.opened(subject_of(plan)) as run:
        answers = run.answers(plan)
    assert answers.lost == share_of(plan, Shard(2, 2))
    assert {test.name for test in answers.account.tests if test.red} == {planned.name for planned in answers.lost}
    assert not answers.whole
    # Who reads only the folders finds the same: the plan is in them.
    account = take_account(read_results(run.folders))
    assert {test.name for test in account.tests if test.red} == {planned.name for planned in answers.lost}

    (tmp_path / "machine-2/night-2of2" / STATE).unlink()
    with place.opened(subject_of(plan)) as run:
        assert run.answers(plan).problems == ("shard 2/2 is missing",)


@pytest.mark.slow
def test_a_question_that_kills_its_process_takes_no_other_with_it(tmp_path: Path) -> None:
    """The rest of its job is asked in another process; a job that ends a second one is given up."""
    plan = plan_of("a", f"{KILLING} 1", "b", f"{KILLING} 2", f"{KILLING} 3", "c", "d")
    ask(plan, tmp_path, "one")
    verdicts = {record.name: record.verdict for record in records_of(tmp_path / "one")}
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.VERIFIED} == {"a", "b", "d"}
    assert len(verdicts) == len(plan)
    lost = [record for record in records_of(tmp_path / "one") if record.verdict is not Verdict.VERIFIED]
    assert {record.kind for record in lost} == {FailureKind.INTERNAL}
    assert all("its process ended with signal 9 before there was an answer" in record.why for record in lost)

    # It is asked again when the campaign is resumed; the record before is kept beside. A night keeps both.
    ask(plan, tmp_path, "one", resume=True)
    assert len(list(records_of(tmp_path / "one"))) == len(plan)
    aside = (tmp_path / "one" / ASKED_AGAIN).read_text().splitlines()
    assert [Record.from_json(json.loads(line)) for line in aside] == lost
    crew = CampaignCrew(RunFolder(tmp_path, name="one"), 1, Silent(), replaces=False)
    crew.ask(plan, jobs_of, is_settled, "Asking")
    assert len(list(records_of(tmp_path / "one"))) == len(plan) + 3, "the last one has been answered meanwhile"


def test_what_cannot_be_started_or_resumed_is_said(tmp_path: Path, recorded: Recorded) -> None:
    plan = plan_of("a")

    def ask_as(name: str, asked: tuple[Planned, ...] = plan, shard: Shard | None = None, *, new: bool = False) -> None:
        with RunPlace(tmp_path, name, not new, shard).opened(subject_of(asked, shard)):
            pass

    ask_as("one", new=True)
    ask_as("one")
    with RunPlace(tmp_path, "one", resume=True).opened(subject_of(plan)):
        answers = [refusal(ask_as, "one")]
    answers += [refusal(ask_as, "one", plan_of("b")), refusal(ask_as, "one", plan, Shard(1, 2))]
    answers += [refusal(partial(ask_as, new=True), name) for name in ("one", "../one")]
    RunFolder(tmp_path, name="old")
    (tmp_path / "old/bench.json").write_text('{"schema_version": 1, "grid": "models"}')
    answers += [refusal(ask_as, name) for name in ("two", "old")]
    path = tmp_path / "one" / STATE
    state = json.loads(path.read_text())
    for text in (json.dumps({**state, "made_with": {"tool": "2"}}), "{}"):
        path.write_text(text)
        answers.append(refusal(ask_as, "one"))
    recorded.check("\n".join(answers).replace(str(tmp_path), "[folder]"))


def test_only_what_could_not_be_tried_is_tried_again_once_and_never_on_a_virtual_board() -> None:
    def repeated(target: str, attempt: int = 1) -> set[str]:
        names = [*map(str, FailureKind), "verified"]
        answers = {name: replace(answer_to(planned), run=RunInfo("one", attempt=attempt))
                   for name, planned in zip(names, plan_of(*(f"{name} x" for name in names)), strict=True)}  # fmt: skip
        return {name for name, record in answers.items() if may_repeat(record, target)}

    wanted = {"not-launched", "timeout", "link", "licence", "probe", "readback", "lost-board", "leased"}
    assert repeated("fvp") == repeated("board") == wanted
    assert repeated("virtual") == repeated("board", attempt=2) == set()
    assert not may_repeat(None, "board")


def test_each_piece_of_work_is_in_one_shard() -> None:
    shards = [Shard(number, 3) for number in (1, 2, 3)]
    takers = [[shard.number for shard in shards if shard.takes("conv", f"case{n}")] for n in range(300)]
    assert all(len(numbers) == 1 for numbers in takers)
    sizes = [sum(numbers == [number] for numbers in takers) for number in (1, 2, 3)]
    assert sizes == [91, 113, 96], "as on every other machine"


def test_what_is_no_shard_is_refused() -> None:
    for text in ("3/2", "0/2", "1", "1/0", "a/b", "1/2/3", "-1/2", ""):
        with pytest.raises(UsageError, match="is not a shard"):
            Shard.parse(text)
