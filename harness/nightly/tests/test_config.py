"""What the files of a nightly and of its quarantine say, and what is said of those that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Accuracy, AccuracyLoss, BenchInfo, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.cli.main import root
from ethos_hil.harness.nightly.config import NightlyConfig, read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import ModelPart, NightlyPlan, SuitePart, SweepPart, plan_of
from ethos_hil.harness.nightly.preparation import read_quarantine, today
from ethos_hil.harness.nightly.tests.plans import QUARANTINE, night, night_in_lines, record, write
from ethos_hil.harness.testing.command import check_session, run_command
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.harness.testing.small_grid import RELU, RESIZE, grid
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.run_results import RunResults

SUITE = '[[suite]]\npaths = ["test_plus.py"]\n'
MODEL = '[[model]]\nmodel = "net.py:net"\n'
SWEEP = '[[sweep]]\ngrid = "grid.toml"\n'
GRID = grid("ethos-u55-128", "ethos-u85-256", cases=RELU + RESIZE, more='memory_modes = ["Sram_Only"]\n')


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the nightlies here name, in another folder than that of the process."""
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "mine.toml").write_text('extends = "mps3-an547"\n[link]\nurl = "/dev/ttyACM0"\n')
    monkeypatch.chdir("/")


def config(folder: Path, text: str) -> NightlyConfig:
    return read_config(write(folder, text))


def plan(folder: Path, text: str) -> NightlyPlan:
    return plan_of(config(folder, text))


def test_paths_start_from_the_files_own_folder_and_links_are_templates(tmp_path: Path) -> None:
    text = f'{SUITE}[history]\nfolder = "../history"\n[[export]]\nto = "junit"\nfile = "j.xml"\n'
    settings = config(tmp_path, text + '[links]\ncommit = "https://git.example/c/{commit}"\n')
    assert settings.history == tmp_path / "../history"
    assert settings.exports[0].file == tmp_path / "j.xml"
    assert settings.into == tmp_path / "results/runs"
    assert settings.links.to_commit("c0ffee") == "https://git.example/c/c0ffee"
    assert settings.links.to_job("17") == ""
    assert config(tmp_path, SUITE).links.to_commit("c0ffee") == ""


def test_limits_are_those_of_all_models_unless_one_has_its_own(tmp_path: Path) -> None:
    limits = '[run]\nmin_sqnr = 15\nmin_npu_share = "90%"\n'
    models = f'{MODEL}[[model]]\nmodel = "b.py:b"\nmin_sqnr = 30.5\nmin_npu_share = 0\n[[model]]\nmodel = "c.pte"\n'
    asked = [part.question for part in plan(tmp_path, f"{limits}{models}").models]
    assert [(each.min_sqnr, each.min_npu_share) for each in asked] == [(15, 0.9), (30.5, 0), (None, 0.9)]
    (free,) = plan(tmp_path, MODEL).models
    assert (free.question.min_sqnr, free.question.min_npu_share) == (None, None)
    for wrong in ('min_npu_share = "90"\n', 'min_npu_share = "150%"\n', "min_npu_share = 90\n", 'min_sqnr = "15"\n'):
        with pytest.raises(UsageError, match=wrong.partition(" ")[0]):
            plan(tmp_path, f"{MODEL}{wrong}")


def test_verified_answers_that_are_far_from_the_float_models_are_counted_and_named() -> None:
    far = Accuracy("output 0", "PyTorch, float64", 9.6, 0.9, 1.0, (0,), 1.0, 0.0)
    near, indices = replace(far, sqnr_db=15.0), replace(far, sqnr_db=None, agreeing=0, elements=20)
    constant = AccuracyLoss(("output 0: it is 0.3 everywhere, and is not in PyTorch",))
    records = [
        replace(record(name), **facts)  # type: ignore[arg-type]
        for name, facts in {
            "far": {"accuracy": (near, far)}, "constant": {"loss": constant}, "near": {"accuracy": (near,)},
            "indices": {"accuracy": (indices,)},
            "failed": {"accuracy": (far,), "verdict": Verdict.FAILED, "failure": Failure(FailureKind.MISMATCH, "no")},
        }.items()
    ]  # fmt: skip
    account = take_account(RunResults("run", "", tuple(records)))
    assert [test.label for test in account.far] == ["far", "constant"]
    assert account.sentence.startswith(
        "4 verified (2 of them with less than 15 dB, constant or saturated), 1 failed; red: 1"
    )


PLANS = {
    "profiles of the host run once": f'{SUITE}targets = ["virtual", "corstone-300"]\n'
    'memory_modes = ["Sram_Only", "Shared_Sram"]\n',
    "NPUs of one family are in sessions of their own": f'{SUITE}npus = ["ethos-u55-32", "ethos-u85-256", '
    '"ethos-u55-256"]\nsuffixes = ["INT", "U55_BI", "U85_BI"]\n',
    "the known model has an NPU that its target can have": '[run]\nknown_model = "net.py:net"\n'
    f'targets = ["corstone-300", "corstone-320"]\n{SUITE}suffixes = ["U55_BI"]\n',
    "points of a benchmark": SWEEP,
    "one case": f"{SWEEP}cases = ['relu*']\nnpus = ['ethos-u85-128']\nboot = false\n",
    "each subject lowers all of it": f'{SUITE}suffixes = ["BI"]\n{MODEL}{SWEEP}cases = ["relu*"]\n'
    'npus = ["ethos-u85-128"]\n'
    '[[subject]]\nname = "old"\nwith = ["executorch==1.4.1", "ethos-u-vela==5.1.0"]\n[[subject]]\nname = "here"\n'
    '[[subject]]\nname = "main"\nwith = ["python=main/bin/python"]\n',
    # Its points are of the board that its records will name.
    "a board's file is looked for beside the nightly's": f'[run]\ntargets = ["board:mine.toml"]\n{SWEEP}'
    f'npus = ["ethos-u55-128"]\n{SWEEP}npus = ["ethos-u55-128"]\ntargets = ["board:./mine.toml", "virtual"]\n',
}


def _subject_of(part: ModelPart | SweepPart) -> tuple[str, ...]:
    return part.settings.subject if isinstance(part, SweepPart) else part.question.subject


def test_a_plan_has_a_part_for_each_place(tmp_path: Path, recorded: Recorded) -> None:
    for what, text in PLANS.items():
        lines = []
        for part in plan(tmp_path, text).parts:
            words = part.arguments if isinstance(part, SuitePart) else [part.target, part.npu]
            cases: list[str] = []
            if isinstance(part, SweepPart):
                cases = [f"{point.case.name} of {point.key[-1]}, {part.settings.boot}" for point in part.points]
            subject = () if isinstance(part, SuitePart) else _subject_of(part)
            lines.append("; ".join([part.name, *words, *cases, *subject]))
        recorded.check("\n".join(lines).replace(str(tmp_path), "[folder]"), what)


def test_another_plan_has_another_digest_and_other_outputs_have_not(tmp_path: Path) -> None:
    digest = plan(tmp_path, SUITE).digest
    assert plan(tmp_path, f'{SUITE}[report]\nfile = "r.html"\n[run]\njobs = 7\n').digest == digest
    others = (f"{SUITE}one_in = 2\n", f"{SUITE}[audit]\none_in = 2\n", SWEEP, PLANS["one case"])
    assert len({digest, *(plan(tmp_path, text).digest for text in others)}) == 5


def test_check_shows_the_parts_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SUITE + MODEL)
    check_session(recorded, run_command, ["nightly nightly.toml --check", "nightly nightly.toml --check --json -"])
    assert not (tmp_path / "results").exists()


BAD: dict[str, tuple[str, ...]] = {
    "no TOML": ("a = [1\n",),
    "unknown table": (f"{SUITE}[[swoop]]\ngrid = 1\n",),
    "unknown key": (f"{SUITE}onein = 3\n",),
    "number too small": (f"{SUITE}{SUITE}one_in = 0\n",),
    "key that is missing": (f"{SUITE}[audit]\n",),
    "text for a number": (f"{SUITE}[run]\njobs = '2'\n",),
    "link without https": (f'{SUITE}[links]\ncommit = "http://g/{{commit}}"\n',),
    "link without its part": (f'{SUITE}[links]\njob = "https://g/jobs"\n',),
    "nothing": ("",),
    "profile": ('[[suite]]\npaths = ["t.py"]\nsuffixes = ["U56"]\n',),
    "target": ('[[suite]]\npaths = ["t.py"]\ntargets = ["virtuel"]\n',),
    "memory mode": ('[[suite]]\npaths = ["t.py"]\nmemory_modes = ["Fast"]\n',),
    "NPU": ('[[suite]]\npaths = ["t.py"]\nnpus = ["ethos-u55-7"]\n',),
    "NPU that the target cannot have": (f'{MODEL}npus = ["ethos-u85-256"]\ntargets = ["corstone-300"]\n',),
    # Else nothing of it would run, and the night would be green.
    "no NPU of a profile": (f'{SUITE}suffixes = ["MI", "U55_BI"]\nnpus = ["ethos-u85-256"]\n',),
    # Else the second session would overwrite what the first one says of its end.
    "NPU twice": (f'{SUITE}npus = ["ethos-u55-128", "ETHOS-U55-128"]\n',),
    "memory mode twice": (f'{SUITE}memory_modes = ["Sram_Only", "sram_only"]\n',),
    "model on an NPU twice": (f'{MODEL}npus = ["ethos-u55-128", "Ethos-U55-128"]\n',),
    "shard": (SUITE, "--shard", "3/2"),
    "nothing to resume": (SUITE, "--resume"),
    "contradiction": (SUITE, "--resume", "--fresh"),
    "no folder to merge": (SUITE, "--merge", "nowhere"),
    "no shard to merge": (SUITE, "--merge", "."),
    "quarantine": (f'{SUITE}[quarantine]\nfile = "q.toml"\n',),
    "policy": (f'{SUITE}[compare]\nagainst = "last"\npolicy = "p.toml"\n',),
    "baseline": (f'{SUITE}[compare]\nagainst = "b.json"\n',),
    "exporter": (f'{SUITE}[[export]]\nto = "word"\nfile = "x"\n',),
    "exporter of one record": (f'{SUITE}[[export]]\nto = "perfetto"\nfile = "x"\n',),
    "report": (f'{SUITE}[report]\nfile = "net.py/r.html"\n',),
    "test file": ('[[suite]]\npaths = ["test_plus.py::test_x_MI", "test_plos.py"]\n',),
    "folder of tests": ('[[suite]]\npaths = ["tests"]\n', "--check"),
    "inputs": (f'{MODEL}inputs = "x.npz"\n',),
    "history": (f'{SUITE}[history]\nfolder = "nowhere"\n',),
}


def test_bad_input_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    (tmp_path / "nowhere").symlink_to("gone")
    monkeypatch.chdir(tmp_path)
    lines = []
    for what, (text, *arguments) in BAD.items():
        words = ["nightly", str(write(tmp_path, text)), *arguments]
        lines.append(f"{what}: {refusal(lambda words=words: root()(words, standalone_mode=False), folder=tmp_path)}")
        assert not (tmp_path / "results").exists()
    recorded.check("\n".join(lines))


def test_refusals_are_not_red_and_lost_points_are(tmp_path: Path, recorded: Recorded) -> None:
    sweep = plan(tmp_path, SWEEP)
    first, second = sweep.parts

    def point(case: str, part: str, kind: FailureKind | None = None) -> Record:
        return replace(record(case, part, kind, npu=part.split()[2]), test=None, bench=BenchInfo("grid", case, "group"))

    records = (
        point("relu_1x64", first.name, FailureKind.MISMATCH),
        point("resize_4x4x8", first.name, FailureKind.DELEGATION),
        point("relu_1x64", second.name),
    )
    results = replace(night(sweep), records=records)
    recorded.check(night_in_lines(account_of_night(sweep, results, Conducted(), (), today())))


BAD_QUARANTINES = {
    "no date": ('"24.12.2026"', ""),
    "a day that is none": ('"2026-02-30"', ""),
    "unknown key": ("2026-01-01", 'onwer = "x"\n'),
    "no kind": ("2026-01-01", '[[test]]\nid = "x"\n'),
    "unknown kind": ("2026-01-01", QUARANTINE[19:].format(expires="2026-01-01").replace("delegation", "wrong")),
    "more than two months": (str(today() + timedelta(61)), ""),
}


def test_what_a_quarantine_cannot_say_is_told_with_its_place(tmp_path: Path, recorded: Recorded) -> None:
    path = tmp_path / "quarantine.toml"
    lines = []
    for what, (expires, more) in BAD_QUARANTINES.items():
        path.write_text(QUARANTINE.format(expires=expires) + more)
        lines.append(f"{what}: {refusal(read_quarantine, path, folder=tmp_path)}".replace(expires, "[day]"))
    recorded.check("\n".join(lines))
    path.write_text(QUARANTINE.format(expires=today() + timedelta(60)))
    (entry,) = read_quarantine(path)
    assert (entry.owner, entry.expires) == ("ada", today() + timedelta(60))
