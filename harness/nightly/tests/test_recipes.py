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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ethos_hil.harness.cli.main import app
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.quarantine import read_quarantine
from ethos_hil.harness.nightly.tests.plans import write

CI = Path(__file__).resolve().parents[3] / "docs/ci"
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
"""


def github() -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load((CI / "github.yml").read_text())
    found["on"] = found.pop(True)  # YAML 1.1 reads `on` so
    return found


def script(job: str, step: str, shard: int = 0) -> str:
    (found,) = (each["run"] for each in github()["jobs"][job]["steps"] if each.get("id") == step)
    return str(found).replace("${{ matrix.shard }}", str(shard))


def run(folder: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner of GitHub does: with bash, which stops at the first error."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "step.md"), **variables}
    command = ["bash", "-e", "-o", "pipefail", "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.proof
@pytest.mark.slow
def test_the_steps_for_github_run_a_night_in_two_shards(tmp_path: Path) -> None:
    write(tmp_path, PLAN)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "a")
    commit = git(tmp_path, "rev-parse", "HEAD")
    for shard in (1, 2):
        done = run(tmp_path, script("shard", "shard", shard))
        assert done.returncode == 0, done.stderr
        assert f"shard {shard}/2: 1 verified; green" in done.stdout
        (tmp_path / "shard").rename(tmp_path / f"shards-{shard}")  # uploaded, and downloaded below one folder
        (tmp_path / "shards").mkdir(exist_ok=True)
        (tmp_path / f"shards-{shard}").rename(tmp_path / f"shards/shard-{shard}")
    night = script("night", "night")
    done = run(tmp_path, night)
    assert done.returncode == 0, done.stderr
    assert "2 verified; green" in done.stdout
    assert run(tmp_path, script("night", "summary")).returncode == 0
    assert "2 verified" in (tmp_path / "step.md").read_text()
    assert len(list((tmp_path / "history").glob("*.parquet"))) == 1

    # The next night is a pull request's, of a commit after that: it is compared with the night of the one before.
    (tmp_path / "net.py").write_text("# other\n")
    git(tmp_path, "commit", "-qam", "b")
    for folder in (tmp_path / "shards").glob("*/2*"):
        folder.rename(folder.with_name("20990101T000000Z-000000" + folder.name[-5:]))
    done = run(tmp_path, night, BASE=commit)
    assert done.returncode == 0, done.stderr
    assert "20990101T000000Z-000000: 2 verified; the gate passes against 2" in done.stdout
    assert json.loads((tmp_path / "night.json").read_text())["comparison"]["subjects"] == 2

    # A machine that failed is no smaller night.
    shutil.rmtree(tmp_path / "shards/shard-2")
    done = run(tmp_path, night)
    assert done.returncode == 1
    assert "red: shard 2/2 is missing" in done.stderr


def test_the_workflow_for_github_keeps_its_shards_and_asks_for_little() -> None:
    found = github()
    assert {"schedule", "workflow_dispatch", "pull_request"} == set(found["on"])
    assert found["permissions"] == {"contents": "read"}
    assert found["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"
    jobs = found["jobs"]
    count = len(jobs["shard"]["strategy"]["matrix"]["shard"])
    assert jobs["shard"]["strategy"]["matrix"]["shard"] == list(range(1, count + 1))
    assert f"--shard 0/{count} " in script("shard", "shard")
    assert jobs["night"]["if"] == "always()"
    writing = {name for name, job in jobs.items() if "write" in str(job.get("permissions"))}
    assert writing == {"history"}
    assert not any("ethos-hil" in str(step.get("run")) for step in jobs["history"]["steps"])
    for job in jobs.values():
        for step in job["steps"]:
            if "upload-artifact" in step.get("uses", ""):
                assert step["if"] == "always()", "what failed is what somebody looks at"


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every call of ours in the recipes, with the variables of the CI system filled in."""
    filled: Mapping[str, str] = {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2"}
    for file in ("github.yml", "gitlab-ci.yml", "ethos-hil-nightly.service"):
        text = re.sub(r"\$\{\{ matrix.shard \}\}", "1", (CI / file).read_text().replace("\\\n", " "))
        for found in re.findall(r"ethos-hil nightly [^\n]*", re.sub(r"\$\{BASE.*", "", text)):
            words = shlex.split(re.sub(r"\$(\w+)", lambda match: filled[match[1]], found))
            yield file, words[1:]


def test_every_recipe_calls_the_same_command_with_options_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = set()
    for file, words in commands():
        write(tmp_path, "[[swoop]]\n")  # refused after the options are read, before anything runs
        with pytest.raises(Exception, match="swoop is not known"):
            app(words, standalone_mode=False)
        seen.add(file)
    assert len(seen) == 3


def test_gitlabs_jobs_hand_on_what_the_plan_writes() -> None:
    found = yaml.safe_load((CI / "gitlab-ci.yml").read_text())
    night, shard = found["night"]["artifacts"], found["shard"]["artifacts"]
    files = {each["file"] for each in tomllib.loads((CI / "nightly.toml").read_text())["export"]}
    assert set(night["reports"].values()) <= files
    assert shard["when"] == night["when"] == found["night"]["when"] == "always"
    assert shard["paths"] == ["shards"]
    assert "--into shards" in found["shard"]["script"][0]


def test_the_units_for_systemd_are_whole() -> None:
    units = {}
    for name in ("service", "timer"):
        units[name] = configparser.RawConfigParser(strict=False)
        units[name].optionxform = str  # type: ignore[assignment, method-assign]
        units[name].read(CI / f"ethos-hil-nightly.{name}")
    assert units["timer"]["Timer"]["Persistent"] == "true"
    service = units["service"]["Service"]
    assert service["Type"] == "oneshot"
    assert service["ExecStart"].startswith("/usr/bin/flock --nonblock ")


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
    example = (
        (CI / "quarantine.toml")
        .read_text()
        .replace("# [[", "[[")
        .replace("\n# ", "\n")
        .replace("2027-01-31", "2026-01-31")
    )
    (tmp_path / "q.toml").write_text(example)
    (entry,) = read_quarantine(tmp_path / "q.toml")
    assert entry.owner == "ada"
