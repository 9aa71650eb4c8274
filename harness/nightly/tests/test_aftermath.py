"""What a night is compared with, and what of that is red."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.run_folder import NIGHTLY, STATE, CampaignSubject, Start, opened
from ethos_hil.harness.nightly.config import ExportEntry, NightlyConfig, read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.nightly import NightOutcome, follow_up
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.preparation import before, read_policy_of, today
from ethos_hil.harness.nightly.tests.plans import git, night, night_in_lines, record, write
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.testing.refusals import refusal
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
    config: NightlyConfig, name: str, *records: Record, quarantine: tuple[Quarantined, ...] = (),
    results: RunResults | None = None, branch: str = "",
) -> str:  # fmt: skip
    """Do what follows a night with these records. Return what is said of it."""
    plan = plan_of(config)
    results = results if results is not None else night(plan, *records)
    entries = tuple(
        replace(entry, run=replace(entry.run, name=name)) for entry in results.records if entry.run is not None
    )
    results = replace(results, name=name, records=entries, manifests=({"branch": branch},))
    account = account_of_night(plan, results, Conducted(), quarantine, today())
    return night_in_lines(follow_up(config, results, account, before(config, name), DEFAULT, Silent()).account)


def at(day: int, *, commit: str = "", **facts: object) -> Record:
    result = record("t", **facts)  # type: ignore[arg-type]
    assert result.run is not None
    return replace(result, created=f"2026-11-{day}T01:00:00+00:00", run=replace(result.run, commit=commit))


def before_of(config: NightlyConfig, name: str, *folders: Path) -> str:
    """Return the name of what a night is compared with."""
    previous = before(config, name, folders)
    return previous.name if previous is not None else "nothing"


ENTRY = Quarantined("t", FailureKind.MISMATCH, "why", "issue", "ada", today())
FAILING = at(21, kind=FailureKind.MISMATCH)
SECOND: dict[str, tuple[tuple[Record, ...], tuple[Quarantined, ...]]] = {
    "a number moved": ((at(21, cycles=101),), ()),
    "a failure in quarantine does not fail the gate": ((FAILING,), (ENTRY,)),
    "a failure": ((FAILING,), ()),
    "no record at all": ((), ()),
    "nothing differs, and two runs of the night agree": ((at(21), record("t", PART + AUDIT)), ()),
    "an exact number differs between two runs of the night": ((at(21), record("t", PART + AUDIT, cycles=101)), ()),
}


@pytest.mark.parametrize("what", SECOND)
def test_what_is_red_of_a_second_night(config: NightlyConfig, what: str, recorded: Recorded) -> None:
    """When it is followed up once more it is not compared with itself, and is in the history once."""
    records, quarantine = SECOND[what]
    first = followed(config, "a", at(20))
    assert "compared with nothing: there is no whole night of nightly.toml before this one" in first
    assert config.history is not None
    (config.history / "README.txt").write_text("the nights of this branch: what is no run does not hide a history")
    second = followed(config, "b", *records, quarantine=quarantine)
    assert followed(config, "b", *records, quarantine=quarantine) == second
    assert [run["run"] for run in History(config.history).runs()] == (["a", "b"] if records else ["a"])
    recorded.check(second.replace(str(today()), "[today]"))


def test_quarantine_in_one_memory_mode_allows_nothing_in_another(config: NightlyConfig) -> None:
    """One test in two modes is two: each fails the gate for itself."""
    modes = ("Shared_Sram", "Sram_Only")
    fine = [replace(at(20), memory_mode=mode) for mode in modes]
    bad = [replace(FAILING, memory_mode=modes[0]), replace(at(21, cycles=101), memory_mode=modes[1])]
    plan = plan_of(config)
    account = account_of_night(plan, night(plan, bad[0]), Conducted(), (ENTRY,), today())
    comparison = compare_runs(observations(fine), observations(bad))
    assert [change.subject.memory_mode for change in account.with_comparison(comparison).failing] == [modes[1]]


def test_a_commit_is_the_run_of_it_or_of_the_nearest_one_before(config: NightlyConfig) -> None:
    git(config.folder, "init", "-q")
    commits = []
    for number in range(3):
        git(config.folder, "commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git(config.folder, "rev-parse", "HEAD"))
    for name, commit in (("a", commits[0]), ("b", commits[1])):
        followed(config, name, at(20, commit=commit))
    for against, name in ((commits[0], "a"), (commits[0][:10], "a"), (commits[2], "b")):
        assert before_of(replace(config, against=against), "c") == name
    with pytest.raises(UsageError, match="has no run 0000000"):
        before(replace(config, against="0000000"), "c")


def test_a_history_that_cannot_be_used_is_named(config: NightlyConfig, tmp_path: Path, recorded: Recorded) -> None:
    followed(config, "a", replace(at(20), created="2999-11-20T01:00:00+00:00"))
    other = replace(config, history=tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.parquet").write_text("no")
    missing = replace(config, policy=config.folder / "gone.toml")
    recorded.check(plain(f"{refusal(before, config, 'b')}\n{refusal(read_policy_of, missing)}", [tmp_path]))
    with pytest.raises(UsageError, match=r"x\.parquet is not a Parquet file: "):
        before(other, "b")


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
    others = [run_folder("other.toml"), run_folder(shard="1/2"), run_folder(finished=False), run_folder(whole=False)]
    assert len({counting, elsewhere, *others}) == 6
    assert before_of(config, "tonight") == counting.name
    assert before_of(config, counting.name) == "nothing"


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
    assert before_of(config, "b", folders[1]) == "a", "of a folder of runs it is the newest other one"
    Selection("", tests=(Selected("lost"),)).write(folders[0])
    assert "note: compared with a, which is not whole: M lost on none: " in followed(config, "b", record("t"))
    for name, own in (("b", folders[1:]), ("night", folders[1:]), ("night", folders)):
        with pytest.raises(UsageError, match=r"compare\.against: results/runs.* is this night itself"):
            before(replace(config, against="results/runs" if own == folders else "results/runs/b"), name, own)


def test_a_change_cannot_wait_for_a_baseline_that_is_not_there(config: NightlyConfig) -> None:
    settings = replace(config, policy=config.folder / "p.toml")
    for policy in ('[gate]\nedited = "accept"', '[[rule]]\nlabel = "a*"\neffects = { regressed = "accept" }'):
        (config.folder / "p.toml").write_text(f"schema_version = 1\n{policy}\n")
        assert read_policy_of(replace(settings, against="baseline.jsonl")).accepts
        with pytest.raises(UsageError, match='"accept", which waits for a baseline'):
            read_policy_of(replace(settings, against="last"))
    (config.folder / "p.toml").write_text('schema_version = 1\n[gate]\nedited = "warn"\n')
    assert not read_policy_of(replace(settings, against="last")).accepts


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
    followed(config, "a", at(20, commit=COMMIT))
    other = at(21, cycles=101, commit=COMMIT)
    if beside == "branch":
        followed(config, "b", other, branch="feature")
    elif beside == "plan":
        followed(replace(config, path=config.path.with_name("other.toml")), "b", other)
    elif beside == "part of a night":
        followed(config, "b", results=replace(night(plan_of(config), other), sessions=()))
    else:
        compact_records([StoredRecord("b", "2026-11-21T01:00:00+00:00", other)], config.history)
    text = followed(replace(config, against=against), "c", at(22, cycles=101))
    assert text.startswith("status 1, r: 1 verified; the gate fails for 1 against a; red: 1")


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
