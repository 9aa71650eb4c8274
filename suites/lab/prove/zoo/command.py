"""`python -m ethos_hil.suites.lab zoo`: architectures that others wrote on every NPU, as a user runs them.

Exit status: 0 each is verified, or refused before anything boots; 1 one is not; 2 unusable arguments; 3 tool missing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.suites.lab.prove.upstream.setting import PACKAGES
from ethos_hil.suites.lab.prove.zoo import pair, table
from ethos_hil.suites.lab.prove.zoo.pair import PLACE, PairResult, run
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES

NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-512")


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAMES]", help="Architectures; default: all.")] = None,
    npu: Annotated[list[str] | None, typer.Option(metavar="NPU", help=f"Default: {', '.join(NPUS)}.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="At a time.")] = os.cpu_count() or 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = PLACE / "results",
    resume: Annotated[bool, typer.Option("--resume", help="Keep DIR's results of this same build.")] = False,
    limit: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Wall time of each at most.")] = 1200,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all results there.")] = None,
) -> None:
    """Lower, run and verify every architecture of the zoo on every NPU, and print what is not verified."""
    unknown = [name for name in names or () if name not in ARCHITECTURES]
    if unknown:
        raise UsageError(f"no architecture is called {unknown[0]}", hint=f"there are {', '.join(ARCHITECTURES)}")
    chosen = [ARCHITECTURES[name] for name in names or ARCHITECTURES]
    if any(architecture.origin != "own" for architecture in chosen) and not (PLACE / ".installed").exists():
        raise ToolError("torchvision and timm are not installed", hint="make build/zoo/.installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # on the way out, the runs are ended too
    out.mkdir(parents=True, exist_ok=True)
    build = pair.build()
    pairs = [(architecture, on) for architecture in chosen for on in npu or NPUS]
    kept = (
        {(result.architecture, result.npu): result for result in _read(out) if result.build == build} if resume else {}
    )
    todo = [(architecture, on) for architecture, on in pairs if (architecture.name, on) not in kept]
    ended = Event()
    with ThreadPoolExecutor(jobs) as threads:
        waiting = [threads.submit(run, architecture, on, build, limit=limit, ended=ended) for architecture, on in todo]
        try:
            for number, future in enumerate(as_completed(waiting), 1):
                result = future.result()
                kept[result.architecture, result.npu] = result
                write_whole(out / f"{result.architecture}.{result.npu}.json", json.dumps(result.to_json()) + "\n")
                sys.stderr.write(f"{number}/{len(todo)}  {table.line(result)}\n")
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            ended.set()
            raise
    done = [kept[architecture.name, on] for architecture, on in pairs]
    sys.stdout.write(table.summary(done))
    if json_file is not None:
        write_whole(json_file, json.dumps(_data(done), indent=1) + "\n")
    raise typer.Exit(int(any(result.group == "wrong" for result in done)))


def _read(folder: Path) -> list[PairResult]:
    return [PairResult.of_json(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def _data(results: Sequence[PairResult]) -> dict[str, object]:
    """What docs/zoo.md shows."""
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        **{name: version(name) for name in PACKAGES if name != "pytest"},
        "architectures": len({result.architecture for result in results}),
        "pairs of architecture and NPU": len(results),
    }
    return {"schema_version": 1, "facts": facts, "pairs": [result.to_json() for result in results]}
