"""The firmware's own fuzzers (firmware/fuzz): readers of programs and delegates, decoder of frames, monitor's receiver.

They are libFuzzer programs, which draw and keep their inputs themselves, from seeds of real programs.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import struct
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.formats import (
    Counters,
    End,
    Error,
    FaultInfo,
    FrameType,
    Hello,
    Loaded,
    Log,
    RunBegin,
    RunEnd,
    Step,
    TensorInfo,
)
from ethos_hil.harness.link.frames import Frame, encode
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.suites.lab.coverage import declared
from ethos_hil.suites.lab.damage import seed_programs

MAX_BYTES = 16 * 1024
"""Of a seed: the fuzzers make nothing longer."""
_CONTROL = 8  # bytes in front of a blob, as firmware/fuzz/delegate.cc has it
_CONVERSATIONS = 20


def version() -> str:
    """Return a digest of what the seeds are made from. When it changes, they are made again."""
    here = Path(__file__)
    files = (here, here.with_name("seed_programs.py"), *sorted(here.parents[2].glob("ops/*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def make(folder: Path) -> None:
    """Write all seeds in place of those that are there."""
    shutil.rmtree(folder, ignore_errors=True)
    folders = {name: folder / name for name in ("program", "delegate", "frames", "monitor", "board")}
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, pte in operators():
            (folders["program"] / name).write_bytes(pte)
        for seed in seed_programs.seeds():
            _write(seed, seed.make(), folders)
    for number, conversation in enumerate(conversations()):
        (folders["frames"] / str(number)).write_bytes(conversation)


def operators() -> Iterator[tuple[str, bytes]]:
    """Yield a small program of the CPU's kernels for each operator that the suites declare, and its name."""
    from ethos_hil.harness.declared.modules import random_inputs
    from ethos_hil.suites.trial.build import module_of

    for operator in declared():
        inputs, _ = random_inputs(operator.cases[0].inputs)
        try:
            pte = seed_programs.exported(module_of(operator.cases[0]), *inputs)
        except (RuntimeError, NotImplementedError):  # ExecuTorch has no kernel that the program could call
            continue
        if len(pte) <= MAX_BYTES:
            yield operator.name, pte


def _write(seed: seed_programs.SeedProgram, pte: bytes, folders: dict[str, Path]) -> None:
    if seed.board:
        (folders["board"] / f"{seed.name}.{seed.npu}.pte").write_bytes(pte)
        for number, delegate in enumerate(Program.parse(pte).plan().delegates):
            if len(delegate.data) <= MAX_BYTES - _CONTROL:
                (folders["delegate"] / f"{seed.name}.{number}").write_bytes(bytes(_CONTROL) + delegate.data)
    if len(pte) <= MAX_BYTES:
        (folders["program"] / seed.name).write_bytes(pte)


def conversations() -> Iterator[bytes]:
    """Yield byte streams as devices send them, with frames of every type and of many lengths."""
    payloads = (Hello, Log, Loaded, RunBegin, TensorInfo, None, Counters, RunEnd, Error, FaultInfo, End, Step)
    for number in range(_CONVERSATIONS):
        rng = random.Random(number)
        line = b"\0" if number % 3 else b"booting ...\n"
        for sequence, frame_type in enumerate(rng.choices(list(FrameType), k=rng.randint(1, 12))):
            layout = payloads[frame_type - 1]
            size = layout.size if layout else rng.choice((0, 1, 253, 254, 255, 1000, 1024))
            text = b"a line of text" if frame_type in (FrameType.LOG, FrameType.ERROR) else b""
            payload = bytes(rng.choice((0, 1, 255)) for _ in range(size)) + text
            line += encode(Frame(frame_type, sequence, payload))
        yield line + struct.pack("<H", rng.randrange(1 << 16))


NAMES = ("program", "delegate", "frames", "monitor")
MAX_RSS_MIB = 1024
"""A boot has a megabyte and a quarter; the rest is the sanitizer's, and the corpus."""
INPUT_SECONDS = 20
"""An input that takes longer is a finding. Most take microseconds; a kernel over all of memory takes seconds."""
_OPTIONS = {
    # The sanitizer's limit and not libFuzzer's: that one looks at the largest resident set ever, in which Linux counts
    # the process that started the fuzzer.
    "ASAN_OPTIONS": "quarantine_size_mb=16:allocator_may_return_null=1:detect_leaks=0:handle_abort=1:"
    f"hard_rss_limit_mb={MAX_RSS_MIB}",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
_PROGRESS = re.compile(rb"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/")
_ARTIFACT = re.compile(r"Test unit written to (\S+)")
_WHAT = re.compile(
    r"runtime error: .*|SUMMARY: (?!UndefinedBehavior).*|PROPERTY VIOLATED: .*|hard rss limit exhausted.*"
)
_CORPUS_SECONDS = 600
_SMALLER_SECONDS = 30
_FIRMWARE = Path(__file__).resolve().parents[3] / "firmware"


@dataclass(frozen=True)
class FuzzerRun:
    """The result of a run.

    Attributes:
        name: of the fuzzer.
        seconds: how long it was asked to run.
        executions: inputs tried.
        coverage: edges of the control flow that were taken.
        corpus: inputs kept, because each takes another path.
        finding: what is wrong, in the sanitizer's words; None when nothing is.
        artifact: the input that shows it.
    """

    name: str
    seconds: int
    executions: int
    coverage: int
    corpus: int
    finding: str | None
    artifact: Path | None


@dataclass(frozen=True)
class Fuzzer:
    """A fuzzer's program and folders.

    Attributes:
        name: one of NAMES.
        binary: built with the CMake preset `fuzz`.
        seeds: folder of inputs to start with.
        regressions: folder of inputs that showed something once.
        work: folder for its corpus and what it finds.
    """

    name: str
    binary: Path
    seeds: Path
    regressions: Path
    work: Path

    @property
    def corpus(self) -> Path:
        """The folder of inputs it kept. The next session starts from them."""
        return self.work / "corpus" / self.name

    def run(self, seconds: int, seed: int = 1) -> FuzzerRun:
        """Fuzz for some time, or until something is found."""
        self.corpus.mkdir(parents=True, exist_ok=True)
        findings = self.work / "findings"
        findings.mkdir(parents=True, exist_ok=True)
        done = self._call(
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-artifact_prefix={findings}/{self.name}-",
            str(self.corpus),
            *(str(folder) for folder in (self.seeds, self.regressions) if folder.is_dir()),
            timeout=seconds + _CORPUS_SECONDS,
        )
        progress = [match.groups() for match in map(_PROGRESS.match, done.stderr.splitlines()) if match]
        executions, coverage, _, corpus = map(int, progress[-1]) if progress else (0, 0, 0, 0)
        finding, artifact = _finding(done)
        return FuzzerRun(self.name, seconds, executions, coverage, corpus, finding, artifact)

    def replay(self, files: Sequence[Path]) -> str | None:
        """Run each input once. Return what is wrong with the first bad one, or None."""
        if not files:
            return None
        return _finding(self._call(*map(str, files), timeout=_CORPUS_SECONDS))[0]

    def smaller(self, artifact: Path) -> Path:
        """Return a smaller input that shows a finding, too, or the same where there is none."""
        small = artifact.with_name(f"{artifact.name}-small")
        options = ("-minimize_crash=1", f"-max_total_time={_SMALLER_SECONDS}", f"-exact_artifact_path={small}")
        self._call(*options, str(artifact), timeout=_CORPUS_SECONDS)
        return small if small.is_file() else artifact

    def _call(self, *arguments: str, timeout: float) -> subprocess.CompletedProcess[bytes]:
        limits = [
            f"-max_len={MAX_BYTES}",
            "-rss_limit_mb=0",
            f"-malloc_limit_mb={MAX_RSS_MIB}",
            f"-timeout={INPUT_SECONDS}",
        ]
        return subprocess.run(
            [str(self.binary), *limits, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **_OPTIONS},
            timeout=timeout,
            check=False,
        )


def _finding(done: subprocess.CompletedProcess[bytes]) -> tuple[str | None, Path | None]:
    if done.returncode == 0:
        return None, None
    output = done.stderr.decode(errors="replace")
    what = _WHAT.search(output)
    artifact = _ARTIFACT.search(output)
    words = what.group() if what else f"exit status {done.returncode}: {output.strip().splitlines()[-1:]}"
    return words, Path(artifact.group(1)) if artifact else None


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Fuzzers: {', '.join(NAMES)}; default: all.")] = None,
    seconds: Annotated[int, typer.Option(min=1, help="For each fuzzer.")] = 120,
    seed: Annotated[int, typer.Option(min=1, help="Of all randomness.")] = 1,
    binaries: Annotated[Path, typer.Option(help="Where the CMake preset `fuzz` builds.")] = Path("build/firmware/host"),
    work: Annotated[Path, typer.Option(help="Where seeds, corpus and findings are.")] = Path("build/fuzz"),
    only_seeds: Annotated[bool, typer.Option("--only-seeds", help="Make the seeds and run nothing.")] = False,
) -> None:
    """Fuzz the readers of programs and delegates, the decoder of frames, and the monitor's receiver, sanitized."""
    wrong = set(names or ()) - set(NAMES)
    if wrong:
        raise UsageError(f"there is no fuzzer {sorted(wrong)[0]!r}", hint=f"there are {', '.join(NAMES)}")
    folder, notes = work / "seeds", []
    with Live() as live:
        stamp = folder / ".made"
        if not stamp.is_file() or stamp.read_text() != version():
            live.stage("Making seeds")
            make(folder)
            stamp.write_text(version())
        if only_seeds:
            return
        fuzzers = [fuzzer(name, binaries, work) for name in names or NAMES]
        sessions = []
        for tool in fuzzers:
            live.stage(f"Fuzzing {tool.name} for {seconds} seconds")
            session = tool.run(seconds, seed)
            sessions.append(session)
            if session.finding:
                notes.append(f"{tool.name}: {session.finding}")
                notes += [f"  again: {tool.binary} {tool.smaller(session.artifact)}"] if session.artifact else []
    console().print(_table(sessions), *map(Text, notes), sep="\n")
    if notes:
        raise typer.Exit(1)


def fuzzer(name: str, binaries: Path, work: Path) -> Fuzzer:
    """Return the fuzzer called `name`. Raise UsageError when it is not built."""
    binary = binaries / f"fuzz-{name}"
    if not binary.is_file():
        raise UsageError(
            f"{binary} is missing", hint="cd firmware && cmake --preset host && cmake --build --preset fuzz"
        )
    return Fuzzer(name, binary, work / "seeds" / name, _FIRMWARE / "fuzz" / "regressions" / name, work)


def _table(sessions: Sequence[FuzzerRun]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fuzzer")
    for column in ("seconds", "executions", "a second", "edges covered", "corpus", "findings"):
        table.add_column(column, justify="right")
    for run in sessions:
        counts = (run.seconds, run.executions, run.executions // run.seconds, run.coverage, run.corpus)
        table.add_row(run.name, *(f"{count:,}" for count in counts), "1" if run.finding else "none")
    return table
