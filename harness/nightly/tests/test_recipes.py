"""The recipes for CI systems: thin callers of `ethos-hil nightly`, whose steps are run here as they stand there."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pip
import pytest
import yaml

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.cli.main import root
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.preparation import read_quarantine
from ethos_hil.harness.nightly.tests.plans import git, record, write, write_shard
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.testing.refusals import refusal

ROOT = Path(__file__).resolve().parents[3]
CI = ROOT / "docs/ci"
PLAN = """
[run]
jobs = 1
[[suite]]
paths = ["test_plus.py"]
suffixes = ["U55_BI"]
[compare]
against = "last"
[history]
folder = "history"
[[export]]
to = "summary"
file = "summary.md"
[[export]]
to = "junit"
file = "results.xml"
"""
WORKFLOWS = ("github.yml", "github-shards.yml")
PIPELINES = ("gitlab-ci.yml", "gitlab-ci-shards.yml")


def read(name: str) -> dict[str, Any]:
    document: dict[Any, Any] = yaml.safe_load((CI / name).read_text())
    if True in document:
        document["on"] = document.pop(True)  # YAML 1.1 reads `on` so
    return document


def action_steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = read("action/action.yml")["runs"]["steps"]
    return steps


def script(steps: list[dict[str, Any]], step: str) -> str:
    (text,) = (entry["run"] for entry in steps if entry.get("id") == step)
    return str(text)


def run(folder: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner of GitHub does: with bash, which stops at the first error."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    paths = {"GITHUB_STEP_SUMMARY": str(folder / "step.md"), "GITHUB_ACTION_PATH": str(CI / "action")}
    inputs = {"PLAN": "nightly.toml", "ARGUMENTS": "", "BASE": "", "GITHUB_RUN_ID": "7", "GITHUB_REF_NAME": "main"}
    environment = {**os.environ, "PATH": path, **paths, **inputs, **variables}
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)


@pytest.mark.proof
@pytest.mark.slow
def test_the_steps_for_github_run_a_night_in_two_shards(tmp_path: Path) -> None:
    write(tmp_path, PLAN)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "a")
    commit = git(tmp_path, "rev-parse", "HEAD")
    jobs = read("github-shards.yml")["jobs"]
    sharding, merging = (jobs[job]["steps"][-1]["with"]["arguments"] for job in ("shard", "night"))
    night = script(action_steps(), "night")
    for shard in ("1", "2"):
        done = run(tmp_path, night, ARGUMENTS=sharding.replace("${{ matrix.shard }}", shard))
        assert done.returncode == 0, done.stderr
        assert f"shard {shard}/2: 1 verified; green" in done.stdout
        (tmp_path / f"shards/shard-{shard}").mkdir(parents=True)
        (tmp_path / "shard").rename(tmp_path / f"shards/shard-{shard}/shard")  # uploaded, and downloaded
    assert run(tmp_path, script(action_steps(), "history")).returncode == 0, "there is no history, and no remote"
    done = run(tmp_path, night, ARGUMENTS=merging)
    assert done.returncode == 0, done.stderr
    assert "2 verified; green" in done.stdout
    assert run(tmp_path, script(action_steps(), "summary")).returncode == 0
    assert "2 verified" in (tmp_path / "step.md").read_text()
    assert len(list((tmp_path / "history").glob("*.parquet"))) == 1
    assert not [path for path in (tmp_path / "shards").rglob("*") if set(path.name) & set('":<>|*?')]

    # The next night is a pull request's, of a commit after that: it is compared with the night of the one before.
    (tmp_path / "net.py").write_text("# other\n")
    git(tmp_path, "commit", "-qam", "b")
    for folder in (tmp_path / "shards").glob("*/*/2*"):
        folder.rename(folder.with_name("20990101T000000Z-000000" + folder.name[-5:]))
    done = run(tmp_path, night, ARGUMENTS=merging, BASE=commit)
    assert done.returncode == 0, done.stderr
    assert "20990101T000000Z-000000: 2 verified; the gate passes against 2" in done.stdout
    assert json.loads((tmp_path / "night.json").read_text())["comparison"]["subjects"] == 2

    # A machine that failed is no smaller night.
    shutil.rmtree(tmp_path / "shards/shard-2")
    done = run(tmp_path, night, ARGUMENTS=merging)
    assert done.returncode == 1
    assert "red: shard 2/2 is missing" in done.stderr
    done = run(tmp_path, script(action_steps(), "summary"))
    assert "::error title=shard 2/2 is missing" in done.stdout


def test_the_action_runs_a_merge_for_real_and_says_what_is_red(tmp_path: Path) -> None:
    """The steps of the action, as bash runs them, on the shards of a night in which a test failed."""
    plan = plan_of(read_config(write(tmp_path, PLAN)))
    write_shard(tmp_path / "shards", plan, Shard(1, 2), record("t.py::test_a_U55_BI"))
    write_shard(tmp_path / "shards", plan, Shard(2, 2), record("t.py::test_b_U55_BI", kind=FailureKind.MISMATCH))
    done = run(tmp_path, script(action_steps(), "night"), ARGUMENTS="--merge shards", BASE="origin/main")
    assert done.returncode == 1, done.stderr
    assert "1 verified, 1 failed" in done.stdout
    assert list((tmp_path / "history").glob("*.parquet"))
    done = run(tmp_path, script(action_steps(), "summary"))
    assert done.returncode == 0, done.stderr
    error = "::error file=test_plus.py,line=3,title=test_b_U55_BI[ethos-u55-128] (mismatch)::what mismatch says"
    assert done.stdout.splitlines() == [error]
    assert "**1 verified**, **1 failed**" in (tmp_path / "step.md").read_text()
    kept_files = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    assert not [name for name in kept_files if set(name) & set('":<>|*?')], "GitHub takes no such file in an artifact"


def test_gitlabs_job_merges_for_real_and_compares_a_merge_request_where_there_is_a_history(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, PLAN)))
    for number in (1, 2):
        write_shard(tmp_path / "shards", plan, Shard(number, 2), record(f"t.py::test_{number}_U55_BI"))
    merging = "\n".join(read("gitlab-ci-shards.yml")["night"]["script"])
    alone = "\n".join(read("gitlab-ci.yml")["night"]["script"])
    assert alone == merging.replace(" --merge shards", "")
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "c0ffee" + "0" * 34}
    done = run(tmp_path, merging, **base)
    assert done.returncode == 0, done.stderr
    assert "2 verified; green" in done.stdout
    assert (tmp_path / "night.json").exists()
    done = run(tmp_path, merging, **base)
    assert done.returncode == 2
    assert f"has no run {base['CI_MERGE_REQUEST_DIFF_BASE_SHA']}" in done.stderr


TOLD = (
    *("on", "permissions", "cancel-in-progress", "if", "fail-fast", "matrix", "arguments", "install", "path", "key"),
    *("restore-keys", "overwrite", "when", "policy", "rules", "HISTORY", "reports", "paths", "uses"),
    "ETHOS_HIL_CACHE_LIMIT",
)
"""The words of a recipe that tell its CI system what to keep, when, and who may write."""


def yield_words(value: Any, place: str = "") -> Iterator[str]:
    """Yield these words and their values, with their places; of an action no version."""
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from yield_words(entry, f"{place}{number}.")
    if isinstance(value, dict):
        for key, entry in value.items():
            if key in TOLD:
                yield f"{place}{key}: {entry.partition('@')[0] if key == 'uses' else entry}"
            else:
                yield from yield_words(entry, f"{place}{key}.")


@pytest.mark.parametrize("name", [*WORKFLOWS, *PIPELINES, "action/action.yml"])
def test_a_recipe_asks_for_little_and_keeps_what_a_red_night_lowered_and_found(name: str, recorded: Recorded) -> None:
    """Only the job of the history may write, and it checks nothing out. `actions/cache` keeps nothing when the job
    fails, nor does a cache of GitLab's unless it is told to; a key cannot be written twice. A shard that failed does
    not keep the night from being judged. Only a scheduled night of the default branch, or a push to it at
    GitHub's, becomes a part of the history.
    """
    recorded.check("\n".join(yield_words(read(name))))


def test_what_the_plan_writes_is_handed_on() -> None:
    written = {entry["file"] for entry in tomllib.loads((CI / "nightly.toml").read_text())["export"]}
    (upload,) = (step for step in action_steps() if str(step.get("uses", "")).startswith("actions/upload-artifact"))
    assert written - {"metrics.txt"} <= set(upload["with"]["path"].split())
    for name in PIPELINES:
        assert set(read(name)["night"]["artifacts"]["reports"].values()) <= written
    assert "--into shards" in read("gitlab-ci-shards.yml")["shard"]["script"][0]
    assert read("github.yml")["jobs"]["history"] == read("github-shards.yml")["jobs"]["history"]


def test_the_job_that_keeps_the_history_may_run_again(tmp_path: Path) -> None:
    """With git itself, in a repository of its own: nothing is written twice, and nothing that is there is replaced."""
    url = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(url))
    keep = script(read("github.yml")["jobs"]["history"]["steps"], "keep")

    def once(machine: str, **files: str) -> list[str]:
        folder = tmp_path / machine
        (folder / "night/history").mkdir(parents=True)
        for name, content in files.items():
            (folder / f"night/history/{name}.parquet").write_text(content)
        done = run(folder, keep, URL=str(url))
        assert done.returncode == 0, done.stderr
        return git(url, "log", "--format=%s", "nightly-history").splitlines()

    assert once("a", one="1") == ["nightly: 7"]
    assert once("again", one="1") == ["nightly: 7"]
    assert once("nothing") == ["nightly: 7"]
    assert len(once("b", one="other", two="2")) == 2
    assert git(url, "show", "nightly-history:one.parquet") == "1"
    assert git(url, "show", "nightly-history:two.parquet") == "2"

    # The next night fetches it, and its work tree is as clean as before.
    checkout = tmp_path / "checkout"
    git(tmp_path, "init", "-q", "-b", "main", str(checkout))
    git(checkout, "remote", "add", "origin", str(url))
    (checkout / "net.py").write_text("")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "a")
    done = run(checkout, script(action_steps(), "history"))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (checkout / "history").iterdir()) == ["one.parquet", "two.parquet"]
    assert git(checkout, "status", "--porcelain") == "?? history/"


def test_what_is_red_is_told_to_github_with_its_place_and_nothing_in_it_is_a_command(tmp_path: Path) -> None:
    case = """<testcase name="a, b"><properties><property name="source" value="t.py:3"/></properties>
    <failure type="mismatch" message="100%&#10;::stop-commands::x"/></testcase>"""
    passed = '<testcase name="right"><skipped type="s" message="m"/></testcase>'
    (tmp_path / "results.xml").write_text(f"<testsuites><testsuite>{case * 12}{passed}</testsuite></testsuites>")
    done = run(tmp_path, script(action_steps(), "summary"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "::error file=t.py,line=3,title=a%2C b (mismatch)::100%25%0A::stop-commands::x"
    assert lines[10:] == ["::notice::2 more are red; results.xml has all"]
    (tmp_path / "results.xml").unlink()
    assert run(tmp_path, script(action_steps(), "summary")).stdout == ""


PROGRAM = """\
#!/bin/sh
echo "${0##*/} $*" >> "$TOLD"
for word; do case "$word" in *.lock) cp "$word" "$TOLD.${word##*/}";; esac; done
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """An environment without torch, with a wheel of ours, and programs that write down how they were called."""
    venv.create(tmp_path)
    (purelib,) = tmp_path.glob("lib/python3*/site-packages")
    (purelib / "pip").symlink_to(Path(pip.__file__).parent)
    wheel(tmp_path, "torch", "2.13.0+cpu")
    for name in ("pip", "apt-get", "sudo", "ethos-hil", "git"):
        (tmp_path / "bin" / name).write_text(PROGRAM)
        (tmp_path / "bin" / name).chmod(0o755)
    for name in ("sh", "mktemp", "rm", "cp", "id"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    with zipfile.ZipFile(tmp_path / "ethos_hil-0.1.0-py3-none-any.whl", "w") as ours:
        for path in (*ROOT.glob("requirements*.lock"), *ROOT.glob("harness/doctor/*.py")):
            ours.write(path, f"ethos_hil/{path.relative_to(ROOT)}")
        ours.writestr("ethos_hil-0.1.0.dist-info/METADATA", "Requires-Python: <3.14,>=3.11\n")
    return tmp_path


def called(machine: Path, *command: str, status: int = 0, **more: str) -> str:
    """Run a command on that machine. Return what programs it called, or what it said where it ended with an error; not
    the names of temporary folders, nor `sudo`, which root does not need.
    """
    told = machine / "told"
    environment = {"PATH": str(machine / "bin"), "TOLD": str(told), "TMPDIR": str(machine)} | only_from(machine) | more
    done = subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == status, done.stderr
    assert not list(machine.glob("tmp.*")), "nothing is left behind"
    assert status == 0 or not told.exists(), "nothing is installed before a refusal"
    text = told.read_text() if status == 0 else done.stderr
    told.unlink(missing_ok=True)
    text = "\n".join(line.removeprefix("sudo ") for line in text.splitlines()).replace(str(machine), "[machine]")
    return re.sub(r"\[machine\]/tmp\.\w+", "[temporary]", text)


def test_what_is_installed_is_the_users_lock_and_torch_for_the_cpu(machine: Path, recorded: Recorded) -> None:
    """A machine that merges gets neither torch nor QEMU; one that has QEMU and no compiler gets one: a plan with
    `profile = true`, as that of the recipes, counts instructions, by a plug-in of QEMU's in C.
    """
    install = ("sh", str(CI / "action/install.sh"))
    recorded.check(called(machine, *install), "run")
    assert (machine / "told.requirements-run.lock").read_bytes() == (ROOT / "requirements-run.lock").read_bytes()
    recorded.check(called(machine, *install, "merge"), "merge")
    assert "profile = true" in (CI / "nightly.toml").read_text()
    (machine / "bin/qemu-system-arm").symlink_to(machine / "bin/git")
    recorded.check(called(machine, *install), "with QEMU")
    (torch,) = machine.glob("torch-*")
    torch.rename(machine / torch.name.replace("+cpu", ""))
    refused = called(machine, *install, status=3)
    assert refused.startswith("There is no torch 2.13.0+cpu for Python 3.")
    assert "pip finds 2.13.0 where it is told to look, and none at https://download.pytorch.org/whl/cpu" in refused
    recorded.check(called(machine, *install, TORCH="any"), "any torch")
    (file,) = machine.glob("ethos_hil-*")
    shutil.copy(file, machine / "ethos_hil-0.2.0-py3-none-any.whl")
    recorded.check(called(machine, *install, status=2), "two wheels")
    for path in machine.glob("*.whl"):
        path.unlink()
    recorded.check(called(machine, *install, status=2), "no wheel")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with lines that go on put together."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line]


def test_the_image_is_debian_with_what_ethos_hil_needs_and_its_steps_run(machine: Path) -> None:
    """There is no Docker here: the shell reads the steps, and runs those that install from the wheel."""
    steps = instructions()
    assert [word for word, _ in steps] == ["ARG", "FROM", "RUN", "RUN", "ENV", "COPY", "RUN"]
    assert [text for _, text in steps[:2]] == ["DEBIAN=bookworm", "debian:$DEBIAN-slim"], "whose Python is 3.11"
    for word, text in steps:
        if word == "RUN":
            assert subprocess.run(["sh", "-n", "-c", text]).returncode == 0
    packages = re.findall(r"--no-install-recommends ([a-z0-9 -]+?) *&&", steps[2][1])[0].split()
    assert set(packages) == {"gcc", "git", "libc6-dev", "python3-venv", "qemu-system-arm"}, "a profile needs a compiler"
    assert set(packages) <= set((ROOT / "docs/install.md").read_text().split()), "names of Debian's packages"

    script, wheel, folder = steps[5][1].split()
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored == ["*", f"!{script}", f"!{wheel}"], "nothing else of a checkout is sent to the builder"
    (file,) = machine.glob("ethos_hil-*")
    assert fnmatch(f"dist/{file.name}", wheel), "what `make wheel` writes"
    image = machine / "image"
    image.mkdir()
    shutil.copy(ROOT / script, image)
    file.rename(image / file.name)
    for name in ("qemu-system-arm", "cc"):
        (machine / "bin" / name).symlink_to(machine / "bin/git")
    log = called(machine, "sh", "-c", steps[6][1].replace(folder.rstrip("/"), str(image)))
    assert "requirements-run.lock" in log
    assert "apt-get" not in log
    assert not image.exists()


def test_the_units_for_systemd_are_whole_and_what_no_test_runs_has_options_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, service = (configparser.RawConfigParser(strict=False) for _ in range(2))
    timer.read(CI / "ethos-hil-nightly.timer")
    service.read(CI / "ethos-hil-nightly.service")
    assert timer["Timer"]["Persistent"] == "true"
    assert service["Service"]["Type"] == "oneshot"
    start = service["Service"]["ExecStart"]
    assert start.startswith("/usr/bin/flock --nonblock ")
    shard = read("gitlab-ci-shards.yml")["shard"]["script"][0].replace("$CI_NODE_INDEX/$CI_NODE_TOTAL", "1/2")
    write(tmp_path, "[[swoop]]\n")  # refused after the options are read, before anything runs
    monkeypatch.chdir(tmp_path)
    for call in (start, shard):
        assert "swoop is not known" in refusal(
            partial(root(), standalone_mode=False), shlex.split(call.split("ethos-hil ")[1])
        )


def test_the_plan_of_the_recipes_can_be_used(tmp_path: Path) -> None:
    shutil.copytree(CI, tmp_path / "ci")
    plan = plan_of(read_config(tmp_path / "ci/nightly.toml"))
    assert [part.name for part in plan.parts] == [
        "known model: virtual",
        "suite 1: virtual",
        "model 1: ethos-u55-128 virtual",
        "model 1: ethos-u85-256 virtual",
    ]
    assert read_quarantine(tmp_path / "ci/quarantine.toml") == ()
    uncommented = [
        (CI / f"{name}.toml").read_text().replace("# [", "[").replace("\n# ", "\n")
        for name in ("nightly", "quarantine")
    ]
    (tmp_path / "q.toml").write_text(uncommented[1].replace("2027-01-31", "2026-01-31"))
    (entry,) = read_quarantine(tmp_path / "q.toml")
    assert entry.owner == "ada"
    (tmp_path / "ci/linked.toml").write_text(uncommented[0].split("\n", 1)[1])
    assert read_config(tmp_path / "ci/linked.toml").links.to_commit("c0ffee").endswith("/commit/c0ffee")
