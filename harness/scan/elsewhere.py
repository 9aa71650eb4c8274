"""Lowering in a process of its own: a declared test of a suite, or any question with another version of ExecuTorch.

The process is the command of a user, `ethos-hil lower` or `pytest --compile-only`. It leaves the artifact in a cache,
where it is found by the digest of its program.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ethos_hil.base.asking import LOWER, TESTING, words
from ethos_hil.base.errors import CompileError, ToolError, UsageError
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import run_module
from ethos_hil.base.question import Question
from ethos_hil.base.regular_file import read_text
from ethos_hil.base.verdict import Verdict
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.settings import CACHE_VARIABLE, LIMIT_VARIABLE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.upstream.patches.patch import VARIABLE
from ethos_hil.results.store import StoredRecord, read

_LIMIT = "1GB"
"""Of what is kept of the artifacts of another ExecuTorch."""
_MOST_REASON = 400
_OURS = "ethos-hil: "
_ADVICE = re.compile(r" \(--debug [^()]*\)$")
"""What is no use here, at the end of an error of that process."""


def lowered_elsewhere(question: Question, overlay: Path | None = None, cache: Path | None = None) -> Artifact:
    """Lower a question in a process of its own, and return the artifact.

    Args:
        question: the question; its model is a text. The NPU of a test may be "", for the one of its profile.
        overlay: a folder that comes first in Python's path, with another ExecuTorch; then none of our patches of
            ExecuTorch is applied. None for what is installed.
        cache: the root of the cache of artifacts; by default the user's.

    Raises:
        UsageError: the question names no test, or nothing that can be scanned.
        CompileError: it cannot be lowered.
        ToolError: the process or the cache does not work.
    """
    model = str(question.model)
    kept = Cache(cache)
    variables = {CACHE_VARIABLE: str(kept.folder)}
    if overlay is not None:
        path = os.pathsep.join(filter(None, (str(overlay), os.environ.get("PYTHONPATH", ""))))
        limit = os.environ.get(LIMIT_VARIABLE, _LIMIT)
        variables |= {"PYTHONPATH": path, VARIABLE: "off", LIMIT_VARIABLE: limit}
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        digest = (_of_case if question.is_test else _of_model)(question, Path(folder), variables)
    artifact = kept.find_by_pte(digest)
    if artifact is None:
        raise ToolError(
            f"{model} was lowered, but is no longer in the cache {kept.root}", hint="is the cache's limit too small?"
        )
    return artifact


def _of_model(question: Question, folder: Path, variables: Mapping[str, str]) -> str:
    """Return the digest of a MODEL's program."""
    answer = folder / "lowered.json"
    program = folder / "program.pte"
    command = ["ethos_hil.harness.cli.main", "lower", *words(question, LOWER), "--output", str(program), "--json",
               str(answer)]  # fmt: skip
    status, said = _called(command, variables)
    if status:
        ours = [_ADVICE.sub("", line.removeprefix(_OURS)) for line in said if line.startswith(_OURS)]
        raise CompileError(_short(ours or said, status))
    return str(json.loads(read_text(answer))["pte_sha256"])


def _of_case(question: Question, folder: Path, variables: Mapping[str, str]) -> str:
    """Return the digest of the program of a suite's test."""
    case = question.label
    command = ["pytest", "--quiet", "-p", "no:cacheprovider", "--compile-only", "--runs", str(folder)]
    command += words(question, TESTING)
    status, said = _called(command, variables)
    records = [each.record for each in read(folder) if isinstance(each, StoredRecord)]
    if not records:
        raise UsageError(
            f"pytest finds no test {case} that is lowered: {_short(said, status)}",
            hint="give the id of one test of a suite, as pytest --collect-only prints it",
        )
    if len(records) > 1:
        raise UsageError(f"{case} is {len(records)} tests", hint=f"give one, such as {records[0].label}")
    record = records[0]
    if record.verdict is not Verdict.COMPILED_ONLY or record.artifact is None:
        why = record.failure.message if record.failure is not None else f"it is {record.verdict}"
        raise CompileError(f"{case} cannot be lowered: {one_line(why)}")
    return record.artifact.sha256


def _called(command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run a module of Python as a program. Return its status, and the lines that it wrote."""
    status, said = run_module(command, variables)
    return status, [line.strip() for line in said.splitlines() if line.strip()]


def _short(lines: Sequence[str], status: int) -> str:
    return cut(one_line(lines[-1]), _MOST_REASON) if lines else f"it ended with status {status}"
