"""`--merge` needs neither torch nor QEMU: it imports only packages of requirements-merge.lock."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.tests.plans import record, write, write_shard
from ethos_hil.harness.testing.small_grid import RELU, grid
from ethos_hil.harness.testing.without import run_without

LOCK = Path(__file__).resolve().parents[3] / "requirements-merge.lock"
EXPORTS = ("junit", "summary", "openmetrics", "points-csv", "points-parquet")
PLAN = """
[run]
known_model = "net.py:net"
[[suite]]
paths = ["test_plus.py"]
[[model]]
model = "net.py:net"
npus = ["ethos-u55-128"]
[[sweep]]
grid = "grid.toml"
[compare]
against = "last"
[history]
folder = "history"
[report]
file = "report.html"
[quarantine]
file = "quarantine.toml"
[audit]
one_in = 2
""" + "".join(f'[[export]]\nto = "{to}"\nfile = "{to}.txt"\n' for to in EXPORTS)
GRID = grid("ethos-u55-128", cases=RELU, more='memory_modes = ["Sram_Only"]\n')


def absent() -> set[str]:
    """The modules that are installed here, and are not of a package of the lock."""
    names = {canonicalize_name(name) for name in re.findall(r"^([^\s#]+)==", LOCK.read_text(), re.MULTILINE)}
    there = metadata.packages_distributions()
    modules = {module for module, by in there.items() if not names & {canonicalize_name(name) for name in by}}
    return modules - {"ethos_hil"}


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `ethos-hil` where only what the lock has can be imported, and no program is there."""
    environment = {"PATH": str(folder / "empty"), "GITHUB_REF_NAME": "main"}
    return run_without(absent(), *arguments, cwd=folder, environment=environment)


def shards(folder: Path, plan: NightlyPlan, cycles: float) -> None:
    """Write both shards of a night."""
    (sweep,) = plan.sweeps
    (model,) = plan.models
    for number in (1, 2):
        shard = Shard(number, 2)
        records: list[Record] = [record(f"test_plus.py::test_{number}_U55_BI", cycles=cycles)]
        for part in (model, sweep):
            for planned in part.planned_of(shard):
                bench = BenchInfo("grid", planned.name, "group") if part is sweep else None
                records.append(replace(record(planned.name, part.name, npu=part.npu), test=None, bench=bench))
        write_shard(folder / "shards", plan, shard, *records)


def test_the_list_of_what_is_absent_has_what_lowers() -> None:
    assert {"torch", "executorch", "torchao", "tosa", "tosa_reference_model", "pytest"} <= absent()
    assert not {"duckdb", "numpy", "jinja2", "ethos_hil"} & absent()


def test_a_night_is_put_together_and_compared_without_what_lowers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "quarantine.toml").write_text("schema_version = 1\n")
    plan = plan_of(read_config(write(tmp_path, PLAN)))
    merge = ("nightly", "nightly.toml", "--merge", "shards")
    shards(tmp_path, plan, 100)
    done = alone(tmp_path, *merge)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "shards")
    shards(tmp_path, plan, 101)
    done = alone(tmp_path, *merge, "--json", "night.json")
    assert done.returncode == 1, done.stderr
    assert "the gate fails for 2 against" in done.stdout
    assert "npu_cycles" in done.stderr
    assert json.loads((tmp_path / "night.json").read_text())["comparison"]["passed"] is False
    assert "regressed" in (tmp_path / "report.html").read_text()
    assert all((tmp_path / f"{to}.txt").stat().st_size for to in EXPORTS)
    before, after = sorted(map(str, (tmp_path / "history").glob("*.parquet")))
    for words in (("compare", before, after), ("history", "--history", "history"), ("report", "shards")):
        done = alone(tmp_path, *words)
        assert done.returncode == (words[0] == "compare"), done.stderr
