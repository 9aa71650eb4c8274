"""Runs one of the firmware's fuzzers for some time, and reads what it prints."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.suites.lab.fuzz.firmware.seeds import MAX_BYTES

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

    def command(self, artifact: Path) -> str:
        """Return the command that shows a finding again."""
        return f"{self.binary} {artifact}"

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
