"""What a nightly's file says, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.cli.main import app
from ethos_hil.harness.nightly.config import NightlyConfig, read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import NightlyPlan, SuitePart, plan_of
from ethos_hil.harness.nightly.preparation import today
from ethos_hil.harness.nightly.tests.plans import night, night_in_lines, nightly, record, write

SUITE = '[[suite]]\npaths = ["test_plus.py"]\n'


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


MODEL = '[[model]]\nmodel = "net.py:net"\n'
UNUSABLE = {
    "no TOML": "a = [1\n",
    "unknown table": f"{SUITE}[[swoop]]\ngrid = 1\n",
    "unknown key": f"{SUITE}onein = 3\n",
    "number too small": f"{SUITE}{SUITE}one_in = 0\n",
    "key that is missing": f"{SUITE}[audit]\n",
    "text for a number": f"{SUITE}[run]\njobs = '2'\n",
    "link without https": f'{SUITE}[links]\ncommit = "http://g/{{commit}}"\n',
    "link without its part": f'{SUITE}[links]\njob = "https://g/jobs"\n',
    "nothing": "",
    "profile": '[[suite]]\npaths = ["t.py"]\nsuffixes = ["U56"]\n',
    "target": '[[suite]]\npaths = ["t.py"]\ntargets = ["virtuel"]\n',
    "memory mode": '[[suite]]\npaths = ["t.py"]\nmemory_modes = ["Fast"]\n',
    "NPU": '[[suite]]\npaths = ["t.py"]\nnpus = ["ethos-u55-7"]\n',
    "NPU that the target cannot have": f'{MODEL}npus = ["ethos-u85-256"]\ntargets = ["corstone-300"]\n',
    # Else nothing of it would run, and the night would be green.
    "no NPU of a profile": f'{SUITE}suffixes = ["MI", "U55_BI"]\nnpus = ["ethos-u85-256"]\n',
    # Else the second session would overwrite what the first one says of its end.
    "NPU twice": f'{SUITE}npus = ["ethos-u55-128", "ETHOS-U55-128"]\n',
    "memory mode twice": f'{SUITE}memory_modes = ["Sram_Only", "sram_only"]\n',
    "model on an NPU twice": f'{MODEL}npus = ["ethos-u55-128", "Ethos-U55-128"]\n',
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, what: str, recorded: Recorded) -> None:
    with pytest.raises(UsageError) as error:
        plan(tmp_path, UNUSABLE[what])
    recorded.check(f"{error.value.message} ({error.value.hint})".replace(str(tmp_path), "[folder]"))


PLANS = {
    "profiles of the host run once": f'{SUITE}targets = ["virtual", "corstone-300"]\n'
    'memory_modes = ["Sram_Only", "Shared_Sram"]\n',
    "NPUs of one family are in sessions of their own": f'{SUITE}npus = ["ethos-u55-32", "ethos-u85-256", '
    '"ethos-u55-256"]\nsuffixes = ["INT", "U55_BI", "U85_BI"]\n',
    "the known model has an NPU that its target can have": '[run]\nknown_model = "net.py:net"\n'
    f'targets = ["corstone-300", "corstone-320"]\n{SUITE}suffixes = ["U55_BI"]\n',
}


@pytest.mark.parametrize("what", PLANS)
def test_a_plan_has_a_part_for_each_place(tmp_path: Path, what: str, recorded: Recorded) -> None:
    parts = plan(tmp_path, PLANS[what]).parts
    recorded.check({part.name: part.arguments if isinstance(part, SuitePart) else (part.target, part.npu)
                    for part in parts})  # fmt: skip


def test_another_plan_has_another_digest_and_other_outputs_have_not(tmp_path: Path) -> None:
    digest = plan(tmp_path, SUITE).digest
    assert plan(tmp_path, f'{SUITE}[report]\nfile = "r.html"\n[run]\njobs = 7\n').digest == digest
    assert plan(tmp_path, f"{SUITE}one_in = 2\n").digest != digest
    assert plan(tmp_path, f"{SUITE}[audit]\none_in = 2\n").digest != digest


def test_check_shows_the_parts_and_runs_nothing(tmp_path: Path) -> None:
    done = nightly(write(tmp_path, SUITE + MODEL), "--check", "--json", "plan.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["suite 1: virtual", "model 1: ethos-u55-128 virtual"]
    parts = json.loads((tmp_path / "plan.json").read_text())["parts"]
    assert [part["name"] for part in parts] == done.stdout.splitlines()
    assert not (tmp_path / "results").exists()


BAD: dict[str, tuple[str, ...]] = {
    "unknown table": ("[[swoop]]\n",),
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


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, recorded: Recorded
) -> None:
    text, *arguments = BAD[what]
    file = write(tmp_path, text)
    (tmp_path / "nowhere").symlink_to("gone")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        app(["nightly", str(file), *arguments], standalone_mode=False)
    recorded.check(f"{error.value.message} ({error.value.hint})".replace(str(tmp_path), "[folder]"))
    assert not (tmp_path / "results").exists()


# Sweeps: points of a benchmark as a part of a night.


GRID = """
schema_version = 1
npus = ["ethos-u55-128", "ethos-u85-256"]
memory_modes = ["Sram_Only"]

[[case]]
name = "relu_64"
steps = [{layer = "ReLU"}]
inputs = [[1, 64]]
tags = ["short"]

[[case]]
name = "resize_4x4x8"
steps = [{layer = "Upsample", options = {scale_factor = 2}}]
inputs = [[1, 8, 4, 4]]
"""
SWEEP = '[[sweep]]\ngrid = "grid.toml"\n'
PARTS = [
    "sweep 1: ethos-u55-128 virtual Sram_Only Ethos_U55_High_End_Embedded",
    "sweep 1: ethos-u85-256 virtual Sram_Only Ethos_U85_SYS_DRAM_Mid",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "grid.toml").write_text(GRID)
    return write(tmp_path, SWEEP)


def point(case: str, part: str, kind: FailureKind | None = None) -> Record:
    result = record(case, part, kind, npu=part.split()[2])
    return replace(result, test=None, bench=BenchInfo("grid", case, "group"))


def test_a_part_for_each_place(file: Path) -> None:
    plan = plan_of(read_config(file))
    assert [part.name for part in plan.parts] == PARTS
    assert [case.name for case in plan.sweeps[0].cases] == ["relu_64", "resize_4x4x8"]
    file.write_text(f"schema_version = 1\n{SWEEP}cases = ['relu*']\nnpus = ['ethos-u85-128']\nboot = false\n")
    (part,) = plan_of(read_config(file)).sweeps
    assert (part.npu, len(part.cases), part.settings.boot) == ("ethos-u85-128", 1, False)
    assert plan_of(read_config(file)).digest != plan.digest


def test_refusals_are_not_red_and_lost_points_are(file: Path, recorded: Recorded) -> None:
    plan = plan_of(read_config(file))
    first, second = PARTS
    records = (
        point("relu_64", first, FailureKind.MISMATCH),
        point("resize_4x4x8", first, FailureKind.DELEGATION),
        point("relu_64", second),
    )
    recorded.check(
        night_in_lines(account_of_night(plan, replace(night(plan), records=records), Conducted(), (), today()))
    )


def test_a_boards_file_is_looked_for_beside_the_nightlys(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all paths of the file are; and its points are of the board that its records will name."""
    (file.parent / "mine.toml").write_text('extends = "mps3-an547"\n[link]\nurl = "/dev/ttyACM0"\n')
    file.write_text(
        f'schema_version = 1\n[run]\ntargets = ["board:mine.toml"]\n{SWEEP}npus = ["ethos-u55-128"]\n'
        f'{SWEEP}npus = ["ethos-u55-128"]\ntargets = ["board:./mine.toml", "virtual"]\n'
    )
    monkeypatch.chdir("/")
    targets = [part.target for part in plan_of(read_config(file)).sweeps]
    assert targets == [f"board:{file.parent / 'mine.toml'}"] * 2 + ["virtual"]
    assert {row.key[-1] for part in plan_of(read_config(file)).sweeps for row in part.points} == {
        "board:mine",
        "virtual",
    }
