"""One architecture on one NPU: run as a user runs it, in a process of its own, and what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.process import end_child, start_child, wait_for_end
from ethos_hil.suites.lab.prove.upstream.setting import REPOSITORY, build_digest, firmware

Group = Literal["verified", "refused", "wrong"]
PLACE = REPOSITORY / "build/zoo"
"""Where `make zoo` puts these packages, and the results."""
ENDING_SECONDS = 60
"""For what comes after a run was killed."""
_MODELS = "ethos_hil.suites.models.zoo"
_FOLDERS = ("src/ethos_hil/base", "harness", "lowering", "suites/models/zoo")
_BEFORE_BOOT = ("compile", "preflight", "delegation")  # kinds of failure that are found before anything boots


@dataclass(frozen=True)
class CpuOperator:
    """Calls of one operator that were left to the CPU for one reason.

    Attributes:
        operator: ExecuTorch's name of the kernel.
        reason: why the partitioner left it.
        calls: how many there are.
    """

    operator: str
    reason: str
    calls: int


@dataclass(frozen=True)
class PairResult:
    """What came of an architecture on an NPU.

    Attributes:
        architecture, npu: the two.
        build: stands for the code that ran.
        status: the exit status; negative where a signal ended it.
        verdict: of the record; "" where there is none.
        kind, message, hint: of the failure; "" where there is none.
        notes: of the record.
        delegated: operators on the NPU; None where it is not known.
        on_cpu: operators on the CPU, but for conversions.
        cycles: NPU cycles, modelled; None where it did not run.
        sram: the largest use of SRAM, bytes: the arenas of the delegates and ExecuTorch's memory; None where it did not
            run.
        lowering: wall seconds from the module to the program, with nothing in the cache.
        seconds: wall seconds in all.
        last: the last line on stderr.
    """

    architecture: str
    npu: str
    build: str
    status: int
    verdict: str = ""
    kind: str = ""
    message: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    delegated: int | None = None
    on_cpu: tuple[CpuOperator, ...] = ()
    cycles: int | None = None
    sram: int | None = None
    lowering: float | None = None
    seconds: float = 0.0
    last: str = ""

    @property
    def group(self) -> Group:
        """verified; refused before anything booted, in words for the user; or wrong."""
        if self.status == 0 and self.verdict == "verified":
            return "verified"
        return "refused" if self.kind in _BEFORE_BOOT and self.status == 1 else "wrong"

    @property
    def told(self) -> str:
        """What it said of its failure."""
        return self.message or self.last

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> PairResult:
        """Return the result that `to_json` returned as data."""
        operators = tuple(CpuOperator(**operator) for operator in data["on_cpu"])
        return cls(**{**data, "notes": tuple(data["notes"]), "on_cpu": operators})


def build() -> str:
    """Return 12 hexadecimal digits that stand for all code that decides a result."""
    lock = REPOSITORY / "suites/lab/prove/zoo/requirements.lock"
    return build_digest(_FOLDERS, (lock, firmware("corstone300"), firmware("corstone320")))


@dataclass(frozen=True)
class PairJob:
    """A run of an architecture on an NPU, with an empty cache.

    Attributes:
        name: the architecture's.
        npu: the NPU.
        build: what the function `build` returned.
        limit: wall seconds; after them it is killed, with status -9.
    """

    name: str
    npu: str
    build: str
    limit: int

    @property
    def count(self) -> int:
        """It is one run."""
        return 1

    def prepare(self) -> Callable[[int], PairResult]:
        """Return the function that runs it."""
        return lambda _: self.run()

    def lost(self, item: int, reason: str) -> PairResult:
        """Return the result of a run whose process crashed."""
        return PairResult(self.name, self.npu, self.build, -signal.SIGKILL, last=reason)

    def run(self) -> PairResult:
        """Run it, and return what came of it."""
        started = monotonic()
        with tempfile.TemporaryDirectory(prefix="ethos-hil-zoo-") as folder:
            record, log = Path(folder, "record.json"), Path(folder, "stderr")
            command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "run", f"{_MODELS}:{self.name}"]
            command += ["--npu", self.npu, "--json", str(record), "--runs", folder, "--timeout", str(self.limit)]
            places = {"PYTHONPATH": str(PLACE / "packages"), "ETHOS_HIL_CACHE": str(Path(folder, "cache"))}
            with log.open("wb") as stream:
                process = start_child(command, env={**os.environ, **places}, stdout=subprocess.DEVNULL, stderr=stream)
                try:
                    wait_for_end(process, self.limit)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    end_child(process, 0)
            lines = log.read_text(errors="replace").splitlines()
            data = json.loads(record.read_text()) if record.exists() else {}
        pair = PairResult(self.name, self.npu, self.build, process.returncode)
        return _result(pair, data, lines, round(monotonic() - started, 1))


def _result(pair: PairResult, data: Mapping[str, Any], lines: list[str], seconds: float) -> PairResult:
    failure = data.get("failure") or {}
    metrics = {metric["name"]: metric["value"] for metric in data.get("metrics", ())}
    artifact = data.get("artifact") or {}
    calls: dict[tuple[str, str], int] = {}
    for call in artifact.get("cpu_calls", ()):
        if call["kind"] == "operator":
            key = (call["operator"], call["reason"])
            calls[key] = calls.get(key, 0) + 1
    return replace(
        pair,
        verdict=data.get("verdict", ""),
        kind=failure.get("kind", ""),
        message=failure.get("message", ""),
        hint=failure.get("hint") or "",
        notes=tuple(data.get("notes", ())),
        delegated=artifact.get("delegated"),
        on_cpu=tuple(CpuOperator(operator, reason, count) for (operator, reason), count in calls.items()),
        cycles=metrics.get("npu_cycles"),
        sram=metrics.get("sram_used"),
        lowering=metrics.get("lowering_seconds"),
        seconds=seconds,
        last=lines[-1] if lines else "",
    )
