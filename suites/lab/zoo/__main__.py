"""`python -m ethos_hil.suites.lab.zoo`: other people's architectures on every NPU, as a user runs them.

Exit status: 0 each pair is verified or refused before anything boots, 1 one is not, 2 unusable arguments, 3 tool
missing.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.lowering.errors import UsageError
from ethos_hil.results.files import write_whole
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.upstream.setting import REPOSITORY
from ethos_hil.suites.lab.zoo import table
from ethos_hil.suites.lab.zoo.architectures import ARCHITECTURES
from ethos_hil.suites.lab.zoo.pair import Result, build_digest, run

NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-512")


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAMES]", help="Architectures; default: all.")] = None,
    npu: Annotated[list[str] | None, typer.Option(metavar="NPU", help=f"Default: {', '.join(NPUS)}.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Pairs at a time.")] = os.cpu_count() or 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = REPOSITORY / "build/zoo",
    resume: Annotated[bool, typer.Option("--resume", help="Keep DIR's results of this same build.")] = False,
    limit: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Wall time of one pair at most.")] = 1200,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all results there.")] = None,
) -> None:
    """Lower, run and verify every architecture of the zoo on every NPU, and print a row for each pair."""
    unknown = [name for name in names or () if name not in ARCHITECTURES]
    if unknown:
        raise UsageError(f"no architecture is called {unknown[0]}", hint=f"there are {', '.join(ARCHITECTURES)}")
    build = build_digest()
    out.mkdir(parents=True, exist_ok=True)
    pairs = [(ARCHITECTURES[name], one) for name in names or ARCHITECTURES for one in npu or NPUS]
    kept = {(one.architecture, one.npu): one for one in _read(out)} if resume else {}
    todo = [(one, on) for one, on in pairs if (old := kept.get((one.name, on))) is None or old.build != build]
    done = [kept[one.name, on] for one, on in pairs if (one, on) not in todo]
    with ThreadPoolExecutor(jobs) as threads:
        waiting = [threads.submit(run, one, on, build, limit=limit) for one, on in todo]
        try:
            for number, future in enumerate(as_completed(waiting), 1):
                result = future.result()
                write_whole(out / f"{result.architecture}.{result.npu}.json", json.dumps(result.to_json()) + "\n")
                done.append(result)
                sys.stderr.write(f"{number}/{len(todo)}  {table.line(result)}\n")
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    order = {(one.name, on): index for index, (one, on) in enumerate(pairs)}
    done.sort(key=lambda result: order[result.architecture, result.npu])
    sys.stdout.write(table.summary(done))
    if json_file is not None:
        write_whole(json_file, json.dumps([result.to_json() for result in done], indent=1) + "\n")
    raise typer.Exit(int(any(result.group == "wrong" for result in done)))


def _read(folder: Path) -> list[Result]:
    return [Result.of_json(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


if __name__ == "__main__":
    start(main)
