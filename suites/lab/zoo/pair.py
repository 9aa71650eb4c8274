"""One architecture on one NPU: run as a user runs it, in a process of its own, and what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

from ethos_hil.suites.lab.upstream.setting import PACKAGES, REPOSITORY, firmware
from ethos_hil.suites.lab.zoo.architectures import Architecture

_MODELS = "ethos_hil.suites.lab.zoo.models"
_FOLDERS = ("harness", "lowering", "suites/lab/zoo")


@dataclass(frozen=True)
class Result:
    """What came of one pair.

    Attributes:
        architecture, npu: the pair.
        build: stands for the code that ran.
        status: the exit status; negative where a signal ended it.
        verdict: of the record; "" where there is none.
        kind, message, hint: of the failure; "" where there is none.
        delegated, cpu: operators on the NPU and on the CPU.
        cpu_ops: the latter by name, with how often each is called.
        cycles: NPU cycles, modelled; None where it did not run.
        sram: bytes of the NPU's arena, the largest of all delegates; None where unknown.
        seconds: wall seconds in all, and `lowering` those of the lowering.
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
    npu_ops: int = 0
    cpu_ops: Mapping[str, int] | None = None
    cycles: int | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    lowering: float | None = None
    last: str = ""

    @property
    def group(self) -> str:
        """verified, refused (before anything booted, in words for the user), or wrong."""
        if self.status == 0 and self.verdict == "verified":
            return "verified"
        return "refused" if self.kind in ("usage", "compile", "preflight", "delegation") else "wrong"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Result:
        """Return the result that `to_json` returned as data."""
        return cls(**{**data, "notes": tuple(data["notes"])})


def build_digest() -> str:
    """Return 12 hexadecimal digits that stand for all code that decides a result."""
    digest = hashlib.sha256(json.dumps({name: version(name) for name in (*PACKAGES, "timm", "torchvision")}).encode())
    sources = [path for folder in _FOLDERS for path in (REPOSITORY / folder).rglob("*.py") if "tests" not in path.parts]
    for path in (*sorted(sources), firmware("corstone300"), firmware("corstone320")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def run(architecture: Architecture, npu: str, build: str, *, limit: float, options: tuple[str, ...] = ()) -> Result:
    """Run a pair.

    Args:
        architecture, npu: the pair.
        build: what `build_digest` returned.
        limit: wall seconds; after them it is ended, with status -9.
        options: further options of `ethos-hil run`.
    """
    started = monotonic()
    with tempfile.TemporaryDirectory(prefix="ethos-hil-zoo-") as folder:
        record, said = Path(folder, "record.json"), Path(folder, "stderr")
        command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "run", f"{_MODELS}:{architecture.name}"]
        command += ["--npu", npu, "--json", str(record), "--runs", folder, "--timeout", str(int(limit)), *options]
        with said.open("wb") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream, start_new_session=True
            )
            try:
                status, used = _wait(process, limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        lines = said.read_text(errors="replace").splitlines()
        data = json.loads(record.read_text()) if record.exists() else {}
    return _result(architecture.name, npu, build, status, data, lines, monotonic() - started, used)


def _wait(process: subprocess.Popen[bytes], limit: float) -> tuple[int, float]:
    """Wait for a process, or end its group after `limit` seconds. Return its status and the CPU seconds it used."""
    before = _children()
    try:
        status = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    return status, _children() - before


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _result(
    name: str, npu: str, build: str, status: int, data: Mapping[str, Any], lines: list[str], wall: float, used: float
) -> Result:
    failure = data.get("failure") or {}
    metrics = {metric["name"]: metric["value"] for metric in data.get("metrics", ())}
    artifact = data.get("artifact") or {}
    cpu: dict[str, int] = {}
    for operator in artifact.get("cpu_ops", ()):
        called = operator if isinstance(operator, str) else operator["name"]
        cpu[called] = cpu.get(called, 0) + 1
    return Result(
        name,
        npu,
        build,
        status,
        verdict=data.get("verdict", ""),
        kind=failure.get("kind", ""),
        message=failure.get("message", ""),
        hint=failure.get("hint") or "",
        notes=tuple(data.get("notes", ())),
        npu_ops=artifact.get("npu_ops", 0),
        cpu_ops=cpu,
        cycles=metrics.get("npu_cycles"),
        seconds=round(wall, 1),
        cpu_seconds=round(used, 1),
        lowering=metrics.get("lowering_seconds"),
        last=lines[-1] if lines else "",
    )
