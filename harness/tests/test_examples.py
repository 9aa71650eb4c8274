"""The distributions in docs/examples, as a stranger installs them: found, used, and checked by their own tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ethos_hil.base.testing.distribution import distribution
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.testing.command import Ended, Run, assert_one_clear_line, run_command
from ethos_hil.harness.testing.small_model import MODEL

ROOT = Path(__file__).resolve().parents[2]
FVPS = sorted({model.soc.name for model in MODELS.values()})
EXAMPLES = ROOT / "docs/examples"
_READ = ("src/ethos_hil/**/*.py", "harness/**/*.py", "results/export/**/*.py")
pytestmark = pytest.mark.environment(contents=[*_READ, "suites/plugin/*.py", "docs/examples/**/*"])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both examples installed, built from a copy."""
    folder = tmp_path_factory.mktemp("examples")
    copies = [shutil.copytree(EXAMPLES / name, folder / name) for name in ("target", "exporter")]
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), *map(str, copies)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture
def ethos_hil(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `ethos-hil` in an empty folder, with the examples installed, or what is in other folders."""

    def call(*arguments: object, sites: Sequence[Path] = (installed,), **variables: str) -> Ended:
        with monkeypatch.context() as patch:
            for site in reversed(sites):
                patch.syspath_prepend(str(site))
            return run_command(*arguments, cwd=tmp_path, environment=variables)

    return call


def run(installed: Path, folder: Path, module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a folder, with the examples installed."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def findings(done: Ended) -> dict[str, dict[str, str]]:
    """What `doctor` says of targets, by name."""
    assert done.err == ""
    listed = {finding["name"]: finding for finding in json.loads(done.out)["findings"]}
    return {name: finding for name, finding in listed.items() if name.startswith("target ")}


def test_the_target_is_listed(ethos_hil: Run, tmp_path: Path) -> None:
    there = findings(ethos_hil("doctor", "--json", ETHOS_HIL_WIRETAP=str(tmp_path)))
    assert set(there) == {f"target {name}" for name in ("virtual", *FVPS, "board", "wiretap")}
    assert (there["target wiretap"]["status"], "ethos-u55-32, -64" in there["target wiretap"]["found"]) == ("ok", True)
    absent = findings(ethos_hil("doctor", "--json", ETHOS_HIL_WIRETAP="absent"))["target wiretap"]
    assert (absent["status"], "absent is not a folder" in absent["found"]) == ("note", True)


def test_a_model_runs_on_the_target_and_its_record_is_exported(ethos_hil: Run, installed: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    wires = tmp_path / "wires"
    wires.mkdir()
    arguments = ("run", "net.py:net", "--target", "wiretap", "--json", "record.json", "--runs", "runs")
    done = ethos_hil(*arguments, ETHOS_HIL_WIRETAP=str(wires))
    assert done.status == 0, done.err
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["verdict"] == "verified"
    assert record["target"] == {"name": "wiretap", "kind": "virtual", "soc": "corstone-300", "rules": []}
    (wire,) = wires.iterdir()
    listed = run(installed, tmp_path, "ethos_hil_wiretap", wire).stdout.splitlines()
    assert listed[0] == str(wire)
    assert [line.split()[0] for line in listed[1:]][:: len(listed) - 2] == ["HELLO", "END"]

    done = ethos_hil("export", "runs", "--to", "markdown")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("**verified** net.py:net for ethos-u55-128 on wiretap\n")
    assert all(f"| {op['npu_op']} | " in done.out for op in record["ops"])


@pytest.mark.slow
@pytest.mark.proof
def test_the_target_keeps_the_contract(installed: Path, tmp_path: Path) -> None:
    """Its own tests, which are the contract's and one of its own."""
    options = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null")
    done = run(installed, tmp_path, "pytest", *options, EXAMPLES / "target/test_wiretap.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_a_plugin_that_cannot_be_imported_hides_nothing(ethos_hil: Run, installed: Path, tmp_path: Path) -> None:
    """Only who asks for it by name has an error; a listing has a warning."""
    entries = "[ethos_hil.targets]\nbroken = absent_module:PLUGIN\nwiretap = absent_module:PLUGIN\n"
    sites = (installed, distribution(tmp_path, "broken", entries))
    listed = findings(ethos_hil("doctor", "--json", sites=sites))
    assert [name.removeprefix("target ") for name in listed] == ["board", "broken", *FVPS, "virtual", "wiretap"]
    assert listed["target virtual"]["status"] == "ok"
    assert "the target 'broken' of broken cannot be imported: ModuleNotFound" in listed["target broken"]["found"]
    ended = ethos_hil("run", "net.py:net", "--target", "wiretap", sites=sites)
    assert_one_clear_line(ended, 3, "the target 'wiretap' is registered by ", "ethos-hil-wiretap", "broken")


FAULTY = """
import dataclasses

from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.virtual import PLUGIN, VirtualTarget
from ethos_hil.results.export.runs.run_exporter import RunExporter

class Guessing(VirtualTarget):
    cycle_provenance = "guessed"

class Raising(VirtualTarget):
    def _run(self, image, *, timeout, progress):
        return [][1]

class Silent(VirtualTarget):
    def _run(self, image, *, timeout, progress):
        return None

class Unfinished(Target):
    pass

def plugin(name, kind):
    return dataclasses.replace(PLUGIN, name=name, make=lambda npu, settings: kind(npu.name))

guessing, raising = plugin("guessing", Guessing), plugin("raising", Raising)
silent, unfinished = plugin("silent", Silent), dataclasses.replace(PLUGIN, name="unfinished", make=Unfinished)
night = RunExporter("night", ".txt", "a line", lambda results, comparison: f"{results.name}: {dict(results.verdicts)}")
"""
TARGETS = ("guessing", "raising", "silent", "unfinished")


@pytest.mark.parametrize(
    "names", [pytest.param(["silent"], id="one"), pytest.param(TARGETS, id="all", marks=pytest.mark.proof)]
)
def test_a_faulty_plugin_is_named_and_nothing_of_it_is_green(
    ethos_hil: Run, tmp_path: Path, names: Sequence[str], recorded: Recorded
) -> None:
    """What a faulty exporter is told, harness/cli/tests/test_export.py has."""
    entries = "\n".join(["[ethos_hil.targets]", *(f"{name} = faulty:{name}" for name in TARGETS)])
    entries += "\n[ethos_hil.run_exporters]\nnight = faulty:night\n"
    site = distribution(tmp_path / "site", "faulty-dist", entries, faulty=FAULTY)
    (tmp_path / "net.py").write_text(MODEL)
    ended = [ethos_hil("run", "net.py:net", "--target", name, sites=(site,)) for name in names]
    recorded.check("\n".join(each.shown() for each in ended))
    assert ethos_hil("run", "net.py:net", "--json", "r.json").status == 0
    done = ethos_hil("export", "r.json", "--to", "night", sites=(site,))
    assert (done.status, done.out) == (0, "r: {<Verdict.VERIFIED: 'verified'>: 1}"), done.err
