"""The published baselines: `ethos-hil bench` on known networks (baselines.toml), and what docs/data keeps of it.

Every network is compiled and timed on all NPUs, in a memory mode of each kind, and booted on one NPU of each generation
in ExecuTorch's default memory mode. Exit status: 0 written, or as it is written; 1 `--check` saw something else; 2
unusable arguments; 3 a tool is missing, or a booted program is not verified.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ethos_hil.base import environment
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.shared import CORES, ROOT, Jobs, show

GRID = Path(__file__).with_name("baselines.toml")
DATA = ROOT / "docs/data/baselines.json"
BOOTED = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
KEY = ("label", "npu", "memory_mode")
KEPT = (
    *KEY, "system_config", "verdict", "reason", "clock_hz", "cycles", "vela_cycles", "macs", "bound_by", "sram_peak",
    "dram_bytes", "weight_bytes", "operations",
)  # fmt: skip
"""What is kept of a point of `ethos-hil bench --json`."""
OF_BOOTED = ("sqnr_db", "transpose_cycles", "on_cpu")
"""What is kept of the record of a point that was booted: see `of_record`."""
_ZOO = ROOT / "build/zoo"
_SHOWN = 20
_SRAM = 2 << 20
"""Of a Corstone-300; a Corstone-320 has more."""
Point = dict[str, Any]


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NETWORK]...", help="With --check: only these.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say what is not as it is written.")] = False,
    jobs: Jobs = CORES,
    data: Annotated[Path, typer.Option(metavar="FILE", help="The data of docs/baselines.md.")] = DATA,
) -> None:
    """Benchmark known networks for every NPU in every memory mode, into the data of docs/baselines.md."""
    if names and not check:
        raise UsageError("the data have all networks", hint="leave out their names, or only --check these")
    chosen = [word for name in names or () for word in ("--case", name)]
    points = _bench([*chosen, "--no-boot"], jobs)
    for npu in BOOTED:
        mode = MemoryMode.default(EthosU.parse(npu)).name
        points = with_booted(points, _bench([*chosen, "--boot", "--npu", npu, "--memory-mode", mode], jobs))
    measured = {"schema_version": 3, "timing_model": timing_model_id(), "versions": environment.versions()}
    if not check:
        write_whole(data, to_text(measured, points))
        show(f"{len(points)} points: {data}")
        return
    written = json.loads(data.read_text("utf-8"))
    lines = differences([point for point in written.pop("points") if not names or point["label"] in names], points)
    lines += [
        f"{name} {written.get(name)} -> {value}" for name, value in measured.items() if written.get(name) != value
    ]
    show(*lines[:_SHOWN], f"what is not as it is written: {len(lines):,}" if lines else "all is as it is written")
    raise typer.Exit(int(bool(lines)))


def _bench(options: Sequence[str], jobs: int) -> list[Point]:
    """Return the points of `ethos-hil bench` with the grid. Raise ToolError where one was not made."""
    if not (_ZOO / ".installed").exists():
        raise ToolError("torchvision is not installed", hint="make build/zoo/.installed")
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), str(_ZOO / "packages"))))
    with tempfile.TemporaryDirectory(prefix="ethos-hil-baselines-") as folder:
        answer = Path(folder, "points.json")
        command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "bench", "--grid", str(GRID), *options]
        command += ["--runs", folder, "--jobs", str(jobs), "--json", str(answer)]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise ToolError(f"the benchmark ended with status {done.returncode}; nothing is published")
        runs = (run for run in Path(folder).iterdir() if run.is_dir())
        records = {_key_of(record): record for run in runs for record in records_of(run)}
        points = json.loads(answer.read_text("utf-8"))["points"]
    return [{name: point[name] for name in KEPT} | of_record(records[_key(point)]) for point in points]


def of_record(record: Record) -> Point:
    """Return what is kept of the record of a booted point; nothing of one that was only compiled.

    Returns:
        sqnr_db: of the output that is worst; None where all are equal to PyTorch's.
        transpose_cycles: of its TRANSPOSE operations, modelled.
        on_cpu: calls of an operator for a reason, without conversions.
    """
    if record.verdict is not Verdict.VERIFIED or record.artifact is None:
        return {}
    levels = [it.sqnr_db for it in record.accuracy if it.sqnr_db is not None and math.isfinite(it.sqnr_db)]
    calls = Counter((it.operator, it.reason) for it in record.artifact.cpu_calls if it.kind == "operator")
    return {
        "sqnr_db": round(min(levels), 1) if levels else None,
        "transpose_cycles": sum(op.cycles or 0 for op in record.ops if op.tosa_op == "TRANSPOSE"),
        "on_cpu": [{"operator": name, "reason": why, "calls": calls[name, why]} for name, why in calls],
    }


def with_booted(points: Iterable[Point], booted: Iterable[Point]) -> list[Point]:
    """Return points, with those that were booted in the place of those that were only timed.

    Raises:
        ToolError: one is not verified, or has other cycles than the model of time gives without a board.
    """
    by_key = {_key(point): point for point in points}
    for point in booted:
        where, timed = " ".join(_key(point)), by_key[_key(point)]
        if point["verdict"] != "verified":
            raise ToolError(f"{where} is {point['verdict']}, not verified: {point['reason']}")
        # What the board's SRAM has no room for is in DRAM or flash there, and takes other times.
        fits = timed["sram_peak"] <= _SRAM and (timed["memory_mode"] != "Sram_Only" or not timed["dram_bytes"])
        if fits and point["cycles"] != timed["cycles"]:
            raise ToolError(f"{where}: the board counts {point['cycles']} cycles, and {timed['cycles']} are modelled")
        by_key[_key(point)] = {**timed, "verdict": point["verdict"], **{name: point[name] for name in OF_BOOTED}}
    return list(by_key.values())


def differences(written: Iterable[Point], measured: Iterable[Point]) -> list[str]:
    """Return a line for each point that is not the same, or that only one side has."""
    before, now = ({_key(point): point for point in points} for points in (written, measured))
    lines = []
    for key in dict.fromkeys((*before, *now)):
        old, new = before.get(key, {}), now.get(key, {})
        changed = [
            f"{name} {old.get(name)} -> {new.get(name)}"
            for name in (*KEPT, *OF_BOOTED)
            if old.get(name) != new.get(name)
        ]
        lines += [f"{' '.join(key)}: {', '.join(changed)}"] if changed else []
    return lines


def to_text(head: Mapping[str, object], points: Iterable[Point]) -> str:
    """Return the data as JSON with a line for each point, so that a change of one is a line of a diff."""
    lines = ",\n".join(f"  {json.dumps(point)}" for point in points)
    return f'{json.dumps(dict(head), indent=1)[:-2]},\n "points": [\n{lines}\n ]\n}}\n'


def _key(point: Point) -> tuple[str, ...]:
    return tuple(point[name] for name in KEY)


def _key_of(record: Record) -> tuple[str, ...]:
    return record.bench.case if record.bench is not None else "", record.npu, record.memory_mode
