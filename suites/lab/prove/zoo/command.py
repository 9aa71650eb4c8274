"""`python -m ethos_hil.suites.lab zoo`: architectures that others wrote on every NPU, as a user runs them.

Exit status: 0 each is verified, or refused before anything boots; 1 one is not; 2 unusable arguments; 3 tool missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.upstream.setting import PACKAGES
from ethos_hil.suites.lab.prove.zoo import pair, table
from ethos_hil.suites.lab.prove.zoo.pair import ENDING_SECONDS, PLACE, PairJob, PairResult
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile, write_json
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES

NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-512")


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAMES]", help="Architectures; default: all.")] = None,
    npu: Annotated[list[str] | None, typer.Option(metavar="NPU", help=f"Default: {', '.join(NPUS)}.")] = None,
    jobs: Jobs = CORES,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = PLACE / "results",
    resume: Annotated[bool, typer.Option("--resume", help="Keep DIR's results of this same build.")] = False,
    limit: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Wall time of each at most.")] = 1200,
    json_file: JsonFile = None,
) -> None:
    """Lower, run and verify every architecture of the zoo on every NPU, and print what is not verified."""
    unknown = [name for name in names or () if name not in ARCHITECTURES]
    if unknown:
        raise UsageError(f"no architecture is called {unknown[0]}", hint=f"there are {', '.join(ARCHITECTURES)}")
    chosen = [ARCHITECTURES[name] for name in names or ARCHITECTURES]
    if any(architecture.origin != "own" for architecture in chosen) and not (PLACE / ".installed").exists():
        raise ToolError("torchvision, timm and transformers are not installed", hint="make build/zoo/.installed")
    out.mkdir(parents=True, exist_ok=True)
    build = pair.build()
    kept = {key: result for key, result in _read(out).items() if resume and result.build == build}
    pairs = [(architecture.name, on) for architecture in chosen for on in npu or NPUS]
    todo = [PairJob(name, on, build, limit) for name, on in pairs if (name, on) not in kept]
    for number, result in enumerate(Crew(jobs, limit + ENDING_SECONDS).run(todo), 1):
        kept[result.architecture, result.npu] = result
        write_whole(out / f"{result.architecture}.{result.npu}.json", json.dumps(result.to_json()) + "\n")
        sys.stderr.write(f"{number}/{len(todo)}  {table.line(result)}\n")
    done = [kept[key] for key in pairs]
    sys.stdout.write(table.summary(done))
    write_json(json_file, _data(done))
    raise typer.Exit(int(any(result.group == "wrong" for result in done)))


def _read(folder: Path) -> dict[tuple[str, str], PairResult]:
    results = [PairResult.of_json(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    return {(result.architecture, result.npu): result for result in results}


def _data(results: Sequence[PairResult]) -> dict[str, object]:
    """What docs/zoo.md shows."""
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        **{name: version(name) for name in PACKAGES if name != "pytest"},
        "architectures": len({result.architecture for result in results}),
        "pairs of architecture and NPU": len(results),
    }
    return {"schema_version": 1, "facts": facts, "pairs": [result.to_json() for result in results]}
