"""What a nightly's file says, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.cli.main import app
from ethos_hil.harness.nightly.config import NightlyConfig, read_config
from ethos_hil.harness.nightly.plan import NightlyPlan, SuitePart, plan_of
from ethos_hil.harness.nightly.tests.plans import nightly, write

SUITE = '[[suite]]\npaths = ["test_plus.py"]\n'


def config(folder: Path, text: str) -> NightlyConfig:
    return read_config(write(folder, text))


def plan(folder: Path, text: str) -> NightlyPlan:
    return plan_of(config(folder, text))


def test_paths_start_from_the_files_own_folder(tmp_path: Path) -> None:
    settings = config(tmp_path, f'{SUITE}[history]\nfolder = "../history"\n[[export]]\nto = "junit"\nfile = "j.xml"\n')
    assert settings.history == tmp_path / "../history"
    assert settings.exports[0].file == tmp_path / "j.xml"
    assert settings.into == tmp_path / "results/runs"


def test_links_are_templates(tmp_path: Path) -> None:
    links = config(tmp_path, f'{SUITE}[links]\ncommit = "https://git.example/c/{{commit}}"\n').links
    assert links.to_commit("c0ffee") == "https://git.example/c/c0ffee"
    assert links.to_job("17") == ""
    assert config(tmp_path, SUITE).links.to_commit("c0ffee") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [1\n", "nightly.toml is not TOML: "),
        (f"{SUITE}[[swoop]]\ngrid = 1\n", "nightly.toml:4: swoop is not known: "),
        (f"{SUITE}onein = 3\n", "nightly.toml:4: suite[1].onein is not known: did you mean one_in?"),
        (f"{SUITE}{SUITE}one_in = 0\n", "nightly.toml:6: suite[2].one_in: 0 is less than the minimum of 1"),
        (f"{SUITE}[audit]\n", "nightly.toml:4: audit: 'one_in' is a required property"),
        (f"{SUITE}[run]\njobs = '2'\n", "nightly.toml:5: run.jobs: '2' is not of type 'integer'"),
        (
            f'{SUITE}[links]\ncommit = "http://g/{{commit}}"\n',
            "nightly.toml:5: links.commit: 'http://g/{commit}' does not",
        ),
        (f'{SUITE}[links]\njob = "https://g/jobs"\n', "nightly.toml:5: links.job: 'https://g/jobs' does not match"),
        ("", "has nothing to run"),
        ('[[suite]]\npaths = ["t.py"]\nsuffixes = ["U56"]\n', "suite 1: suffixes 'U56' is not a profile"),
        ('[[suite]]\npaths = ["t.py"]\ntargets = ["virtuel"]\n', "no target is called 'virtuel'"),
        ('[[suite]]\npaths = ["t.py"]\nmemory_modes = ["Fast"]\n', "'Fast' is not a memory mode of Vela"),
        ('[[suite]]\npaths = ["t.py"]\nnpus = ["ethos-u55-7"]\n', "'ethos-u55-7' is not an Ethos-U configuration"),
        (
            '[[model]]\nmodel = "net.py:net"\nnpus = ["ethos-u85-256"]\ntargets = ["corstone-300"]\n',
            "the target corstone-300 cannot have an ethos-u85-256",
        ),
        # Else nothing of it would run, and the night would be green.
        (f'{SUITE}suffixes = ["MI", "U55_BI"]\nnpus = ["ethos-u85-256"]\n', "is one of the profile U55_BI"),
        # Else the second session would overwrite what the first one says of its end.
        (f'{SUITE}npus = ["ethos-u55-128", "ETHOS-U55-128"]\n', "ethos-u55-128 is in the plan 2 times"),
        (f'{SUITE}memory_modes = ["Sram_Only", "sram_only"]\n', "suite 1: virtual Sram_Only is in the plan 2 times"),
        (
            '[[model]]\nmodel = "net.py:net"\nnpus = ["ethos-u55-128", "Ethos-U55-128"]\n',
            "model 1: ethos-u55-128 virtual is in the plan 2 times",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(tmp_path, text)
    assert message in f"{error.value.message}: {error.value.hint}"


def test_profiles_of_the_host_run_once(tmp_path: Path) -> None:
    suites = plan(
        tmp_path,
        f'{SUITE}targets = ["virtual", "corstone-300"]\nmemory_modes = ["Sram_Only", "Shared_Sram"]\n',
    ).suites
    assert [part.name for part in suites] == [
        "suite 1: virtual Sram_Only",
        "suite 1: virtual Shared_Sram",
        "suite 1: corstone-300 Sram_Only",
        "suite 1: corstone-300 Shared_Sram",
    ]
    assert [("BI" in part.suffixes, "U55_BI" in part.suffixes) for part in suites] == [(True, True)] + [
        (False, True)
    ] * 3


def test_npus_of_one_family_are_in_sessions_of_their_own(tmp_path: Path) -> None:
    text = f'{SUITE}npus = ["ethos-u55-64", "ethos-u85-256", "ethos-u55-256"]\nsuffixes = ["INT", "U55_BI", "U85_BI"]\n'
    text = text.replace("ethos-u55-64", "ethos-u55-32")
    first, second = plan(tmp_path, text).suites
    assert (first.npus, first.suffixes) == (("ethos-u55-32", "ethos-u85-256"), ("BI", "U55_BI", "U85_BI"))
    assert (second.npus, second.suffixes) == (("ethos-u55-256",), ("U55_BI",))
    assert isinstance(second, SuitePart)
    assert second.arguments == ["--suffix=U55_BI", "--npu=ethos-u55-256", "--target=virtual"]


def test_the_known_model_has_an_npu_that_its_target_can_have(tmp_path: Path) -> None:
    text = f'[run]\nknown_model = "net.py:net"\ntargets = ["corstone-300", "corstone-320"]\n{SUITE}'
    assert [(part.target, part.npu) for part in plan(tmp_path, text).known] == [
        ("corstone-300", "ethos-u55-128"),
        ("corstone-320", "ethos-u85-256"),
    ]


def test_another_plan_has_another_digest_and_other_outputs_have_not(tmp_path: Path) -> None:
    digest = plan(tmp_path, SUITE).digest
    assert plan(tmp_path, f'{SUITE}[report]\nfile = "r.html"\n[run]\njobs = 7\n').digest == digest
    assert plan(tmp_path, f"{SUITE}one_in = 2\n").digest != digest
    assert plan(tmp_path, f"{SUITE}[audit]\none_in = 2\n").digest != digest


def test_check_shows_the_parts_and_runs_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, f'{SUITE}[[model]]\nmodel = "net.py:net"\n')
    done = nightly(file, "--check", "--json", "plan.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["suite 1: virtual", "model 1: ethos-u55-128 virtual"]
    assert [
        part["name"] for part in json.loads((tmp_path / "plan.json").read_text())["parts"]
    ] == done.stdout.splitlines()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("[[swoop]]\n", (), "nightly.toml:2: swoop is not known"),
        (SUITE, ("--shard", "3/2"), "--shard '3/2' is not a shard (the second of four is 2/4)"),
        (SUITE, ("--resume",), "has no night of nightly.toml to resume"),
        (SUITE, ("--resume", "--fresh"), "--resume and --fresh contradict one another"),
        (SUITE, ("--merge", "nowhere"), "nowhere cannot be read: No such file or directory"),
        (SUITE, ("--merge", "."), "has no shard of a night"),
        (f'{SUITE}[quarantine]\nfile = "q.toml"\n', (), "q.toml cannot be read: No such file or directory"),
        (f'{SUITE}[compare]\nagainst = "last"\npolicy = "p.toml"\n', (), "p.toml cannot be read"),
        (f'{SUITE}[compare]\nagainst = "b.json"\n', (), "compare.against: b.json is not a run folder, record or"),
        (f'{SUITE}[[export]]\nto = "word"\nfile = "x"\n', (), "no exporter is called 'word'"),
        (f'{SUITE}[[export]]\nto = "perfetto"\nfile = "x"\n', (), "the format 'perfetto' is of one record"),
        (f'{SUITE}[report]\nfile = "net.py/r.html"\n', (), "cannot write"),
        ('[[suite]]\npaths = ["test_plus.py::test_x_MI", "test_plos.py"]\n', (), "test_plos.py (paths start from"),
        ('[[suite]]\npaths = ["tests"]\n', ("--check",), "suite 1: there is no "),
        ('[[model]]\nmodel = "net.py:net"\ninputs = "x.npz"\n', (), "x.npz (paths start from"),
        (f'{SUITE}[history]\nfolder = "nowhere"\n', (), "nowhere (is "),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: tuple[str, ...], message: str
) -> None:
    file = write(tmp_path, text)
    (tmp_path / "nowhere").symlink_to("gone")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        app(["nightly", str(file), *arguments], standalone_mode=False)
    assert message in f"{error.value.message} ({error.value.hint})"
    assert not (tmp_path / "results").exists()
