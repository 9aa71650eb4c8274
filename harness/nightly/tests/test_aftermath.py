"""What a night is compared with, and what of that is red."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.run_folder import NIGHTLY, STATE, CampaignSubject, Start, opened
from ethos_hil.harness.nightly.config import ExportEntry, NightlyConfig, read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.nightly import Aftermath, NightOutcome, follow_up
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.preparation import before, read_policy_of, today
from ethos_hil.harness.nightly.tests.plans import git, night, record, write
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.gate.account import AUDIT
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.gate import side
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import DEFAULT
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.store import RunFolder, StoredRecord

PART = "suite 1: virtual"


@pytest.fixture
def config(tmp_path: Path) -> NightlyConfig:
    text = '[[suite]]\npaths = ["t.py"]\n[compare]\nagainst = "last"\n[history]\nfolder = "history"\n'
    return read_config(write(tmp_path, text))


def followed(
    config: NightlyConfig,
    name: str,
    *records: Record,
    quarantine: tuple[Quarantined, ...] = (),
    results: RunResults | None = None,
    branch: str = "",
) -> tuple[Aftermath, NightOutcome]:
    """Do what follows a night with these records."""
    plan = plan_of(config)
    results = results if results is not None else night(plan, *records)
    entries = tuple(
        replace(entry, run=replace(entry.run, name=name)) for entry in results.records if entry.run is not None
    )
    results = replace(results, name=name, records=entries, manifests=({"branch": branch},))
    account = account_of_night(plan, results, Conducted(), quarantine, today())
    aftermath = follow_up(config, results, account, before(config, name), DEFAULT, Silent())
    return aftermath, NightOutcome(name, "", (), False, aftermath.account, aftermath.files, {})


def at(time: str, *, commit: str = "", **facts: object) -> Record:
    result = record("t", **facts)  # type: ignore[arg-type]
    assert result.run is not None
    return replace(result, created=time, run=replace(result.run, commit=commit))


def test_a_number_that_moved_since_the_last_night_is_red(config: NightlyConfig) -> None:
    aftermath, outcome = followed(config, "a", at("2026-11-20T01:00:00+00:00"))
    assert (aftermath.account.comparison, outcome.status) == (None, 0)
    nothing = "compared with nothing: there is no whole night of nightly.toml before this one"
    assert aftermath.account.notes == (nothing,)
    aftermath, outcome = followed(config, "b", at("2026-11-21T01:00:00+00:00", cycles=101))
    assert aftermath.account.comparison is not None
    assert aftermath.account.comparison.before == "a"
    assert outcome.status == 1
    assert outcome.red[0].startswith("regressed: t ethos-u55-128: npu_cycles 100")
    again, outcome = followed(config, "b", at("2026-11-21T01:00:00+00:00", cycles=101))
    assert again.account.comparison is not None
    assert again.account.comparison.before == "a", "a night that is followed up again is not compared with itself"
    assert config.history is not None
    assert [run["run"] for run in History(config.history).runs()] == ["a", "b"]


def test_what_is_in_quarantine_does_not_fail_the_gate(config: NightlyConfig) -> None:
    followed(config, "a", at("2026-11-20T01:00:00+00:00"))
    failing = at("2026-11-21T01:00:00+00:00", kind=FailureKind.MISMATCH)
    entry = Quarantined("t", FailureKind.MISMATCH, "why", "issue", "ada", today())
    aftermath, outcome = followed(config, "b", failing, quarantine=(entry,))
    assert aftermath.account.comparison is not None
    assert (aftermath.account.comparison.passed, aftermath.account.failing, outcome.status) == (False, (), 0)
    _, outcome = followed(config, "b", failing)
    assert outcome.status == 1


def test_quarantine_in_one_memory_mode_allows_nothing_in_another(config: NightlyConfig) -> None:
    """One test in two modes is two: each fails the gate for itself."""
    modes = ("Shared_Sram", "Sram_Only")
    fine = [replace(at("2026-11-20T01:00:00+00:00"), memory_mode=mode) for mode in modes]
    bad = [replace(at("2026-11-21T01:00:00+00:00", kind=FailureKind.MISMATCH), memory_mode=modes[0]),
           replace(at("2026-11-21T01:00:00+00:00", cycles=101), memory_mode=modes[1])]  # fmt: skip
    plan = plan_of(config)
    entry = Quarantined("t", FailureKind.MISMATCH, "why", "issue", "ada", today())
    account = account_of_night(plan, night(plan, bad[0]), Conducted(), (entry,), today())
    comparison = compare_runs(observations(fine), observations(bad))
    assert [change.subject.memory_mode for change in account.with_comparison(comparison).failing] == [modes[1]]


def test_an_exact_number_that_differs_between_two_runs_of_a_night_is_red(config: NightlyConfig) -> None:
    twice = (record("t"), record("t", PART + AUDIT))
    assert followed(config, "a", *twice)[1].status == 0
    aftermath, outcome = followed(config, "a", record("t"), record("t", PART + AUDIT, cycles=101))
    assert aftermath.account.unstable == ("t (npu_cycles modelled)",)
    assert (outcome.status, outcome.red) == (1, ("unstable: t (npu_cycles modelled)",))
    assert "1 verified" in outcome.sentence


def test_a_commit_is_the_run_of_it_or_of_the_nearest_one_before(config: NightlyConfig) -> None:
    git(config.folder, "init", "-q")
    commits = []
    for number in range(3):
        git(config.folder, "commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git(config.folder, "rev-parse", "HEAD"))
    for name, commit in (("a", commits[0]), ("b", commits[1])):
        followed(config, name, at("2026-11-20T01:00:00+00:00", commit=commit))
    for against, name in ((commits[0], "a"), (commits[0][:10], "a"), (commits[2], "b")):
        previous = before(replace(config, against=against), "c")
        assert previous is not None
        assert previous.name == name
    with pytest.raises(UsageError, match="has no run 0000000"):
        before(replace(config, against="0000000"), "c")


def test_a_history_that_cannot_be_used_is_named(config: NightlyConfig, tmp_path: Path) -> None:
    followed(config, "a", at("2999-11-20T01:00:00+00:00"))
    with pytest.raises(UsageError, match=r"the last run of .* is of 2999-11-20T01:00:00, and it is ") as error:
        before(config, "b")
    assert error.value.hint == "set the clock, or move a.parquet away"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.parquet").write_text("no")
    with pytest.raises(UsageError, match=r"x\.parquet is not a Parquet file: "):
        before(replace(config, history=tmp_path / "other"), "b")
    with pytest.raises(UsageError, match=r"gone\.toml cannot be read: No such file or directory"):
        read_policy_of(replace(config, policy=config.folder / "gone.toml"))


def test_without_a_history_last_is_a_whole_night_in_the_folder_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = read_config(write(tmp_path, '[[suite]]\npaths = ["t.py"]\n[compare]\nagainst = "last"\n'))

    def run_folder(plan: str = "nightly.toml", shard: str = "", *, finished: bool = True, whole: bool = True) -> Path:
        subject = CampaignSubject(NIGHTLY, plan_of(config).digest, {}, plan, shard)
        with opened(config.into, subject, Start.FRESH) as night:
            night.run_folder.append(record("t"), part=PART)
            if finished:
                night.finish({"down": {}, "problems": {}}, whole=whole)
        return night.folder

    counting = run_folder()
    elsewhere = run_folder()
    state = json.loads((elsewhere / STATE).read_text())
    (elsewhere / STATE).write_text(json.dumps({**state, "branch": "another"}))
    others = [
        elsewhere,
        run_folder("other.toml"),
        run_folder(shard="1/2"),
        run_folder(finished=False),
        run_folder(whole=False),
    ]
    assert len({counting, *others}) == 6
    previous = before(config, "tonight")
    assert previous is not None
    assert previous.name == counting.name
    assert before(config, counting.name) is None


def test_a_night_of_the_history_that_is_not_whole_says_so(config: NightlyConfig) -> None:
    """`compare` and `accept` take it, too."""
    whole = night(plan_of(config), record("t"), record("u"))
    for name, records in (("a", whole.records), ("b", whole.records[:1])):
        followed(config, name, results=replace(whole, records=records))
    assert side("a", config.history).gaps == ()
    assert side("b", config.history).gaps == ("of what the night of nightly.toml asked for, it does not have all",)


def test_a_night_is_never_compared_with_itself(tmp_path: Path) -> None:
    """The gate would pass, whatever has changed."""
    config = read_config(write(tmp_path, '[[suite]]\npaths = ["t.py"]\n[compare]\nagainst = "results/runs"\n'))
    folders = []
    for letter in ("a", "b"):
        RunFolder(config.into, name=letter).append(record("t"))
        folders.append(config.into / letter)
    previous = before(config, "b", [folders[1]])
    assert previous is not None
    assert previous.name == "a", "of a folder of runs it is the newest other one"
    Selection("", tests=(Selected("lost"),)).write(folders[0])
    (note,) = followed(config, "b", record("t"))[0].account.notes
    assert note.startswith("compared with a, which is not whole: M lost on none: ")
    for name, own in (("b", folders[1:]), ("night", folders[1:]), ("night", folders)):
        with pytest.raises(UsageError, match=r"compare\.against: results/runs.* is this night itself"):
            before(replace(config, against="results/runs" if own == folders else "results/runs/b"), name, own)


@pytest.mark.parametrize(
    "policy", ['[gate]\nedited = "accept"', '[[rule]]\nlabel = "a*"\neffects = { regressed = "accept" }']
)
def test_a_change_cannot_wait_for_a_baseline_that_is_not_there(config: NightlyConfig, policy: str) -> None:
    (config.folder / "p.toml").write_text(f"schema_version = 1\n{policy}\n")
    settings = replace(config, policy=config.folder / "p.toml")
    assert read_policy_of(replace(settings, against="baseline.jsonl")).accepts
    with pytest.raises(UsageError, match='"accept", which waits for a baseline'):
        read_policy_of(replace(settings, against="last"))


COMMIT = "c0ffee" + "0" * 34


@pytest.mark.parametrize(
    ("beside", "against"),
    [
        *((beside, "last") for beside in ("branch", "plan", "part of a night", "desk")),
        *((beside, COMMIT) for beside in ("plan", "part of a night", "desk")),
    ],
)
def test_what_a_night_is_compared_with_is_a_whole_night_of_this_plan(
    config: NightlyConfig, beside: str, against: str
) -> None:
    """On this branch, or of this commit. What else there is, is newer, and would let the regression pass as new."""
    assert config.history is not None
    followed(config, "a", at("2026-11-20T01:00:00+00:00", commit=COMMIT))
    other = at("2026-11-21T01:00:00+00:00", cycles=101, commit=COMMIT)
    if beside == "branch":
        followed(config, "b", other, branch="feature")
    elif beside == "plan":
        followed(replace(config, path=config.path.with_name("other.toml")), "b", other)
    elif beside == "part of a night":
        whole = night(plan_of(config), other)
        followed(config, "b", results=replace(whole, sessions=()))
    else:
        compact_records([StoredRecord("b", "2026-11-21T01:00:00+00:00", other)], config.history)
    night_after = at("2026-11-22T01:00:00+00:00", cycles=101)
    aftermath, outcome = followed(replace(config, against=against), "c", night_after)
    assert aftermath.account.comparison is not None
    assert (aftermath.account.comparison.before, outcome.status) == ("a", 1)


def test_a_night_without_any_record_is_compared_like_any_other(config: NightlyConfig) -> None:
    """And what is no run beside the others does not hide a history."""
    followed(config, "a", at("2026-11-20T01:00:00+00:00"))
    assert config.history is not None
    (config.history / "README.txt").write_text("the nights of this branch")
    aftermath, outcome = followed(config, "b")
    assert aftermath.account.comparison is not None
    assert aftermath.account.comparison.before == "a"
    assert [str(change.word) for change in aftermath.account.comparison.changes] == ["missing"]
    assert outcome.status == 1


def test_every_output_tells_what_is_red_beside_the_answers(config: NightlyConfig) -> None:
    """As of a night with a shard that is missing: each was green, or said that every answer is right."""
    names = {"junit": "j.xml", "summary": "s.md", "openmetrics": "m.txt"}
    files = {to: config.folder / name for to, name in names.items()}
    exports = tuple(ExportEntry(to, file) for to, file in files.items())
    settings = replace(config, report=config.folder / "r.html", exports=exports)
    plan = plan_of(config)
    account = account_of_night(plan, night(plan, record("t")), Conducted(), (), today(), (), ["shard 2/2 is missing"])
    aftermath = follow_up(settings, night(plan, record("t")), account, None, DEFAULT, Silent())
    outcome = NightOutcome("a", "", (), False, aftermath.account, aftermath.files, {})
    assert (outcome.status, outcome.red) == (1, ("shard 2/2 is missing",))
    assert 'failures="1"' in files["junit"].read_text()
    assert "ethos_hil_gate_passed 0\n" in files["openmetrics"].read_text()
    assert files["summary"].read_text().startswith("# ethos-hil: red: 1")
    page = (config.folder / "r.html").read_text()
    assert 'class="status bad"' in page
    for text in (page, files["summary"].read_text(), files["junit"].read_text(), str(outcome.to_json())):
        assert "shard 2/2 is missing" in text
    assert config.history is not None
    assert [run["whole"] for run in History(config.history).runs()] == [False]
