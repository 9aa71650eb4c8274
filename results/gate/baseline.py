"""The baseline: what was accepted, as a text file that a team keeps in git and reviews as a diff.

It is JSON lines, sorted. The first line says what the file is. Then there is a line for each environment (what numbers
depend on, beside the program), and for each subject a line with its verdict and digests, followed by one for each of
its numbers. A subject that is as it was keeps its lines, and the environment that they came from, so that a diff has
nothing but what changed. Wall times are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_text
from ethos_hil.base.verdict import rank
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.observation import FACTS, Key, Number, Observation
from ethos_hil.results.gate.pairing import both_know, pair
from ethos_hil.results.gate.policy import noisy
from ethos_hil.results.subject import Subject

SCHEMA_VERSION = 1
_MARK = "ethos_hil_baseline"
_MOST = 1 << 30
"""Largest size of a baseline, bytes."""
_OF_PLACE = (Cause.TIMING_MODEL, Cause.FIRMWARE, Cause.TARGET)
"""Facts that many subjects share: an environment has them."""
_OF_PROGRAM = tuple(cause for cause in FACTS if cause not in _OF_PLACE)

_LATER = ("case", "scheme", "upstream")
"""Fields of a subject that the first files do not have. They are written where they say something, so that the lines
of all others stay as they are."""


@dataclass(frozen=True)
class Acceptance:
    """What became of a baseline.

    Attributes:
        observations: the new one.
        updated, added, removed: subjects that are different, new, or gone.
        refused: subjects that failed, though no test declares it; they stay as they were, or are not there.
    """

    observations: tuple[Observation, ...]
    updated: tuple[Subject, ...]
    added: tuple[Subject, ...]
    removed: tuple[Subject, ...]
    refused: tuple[Subject, ...]


def is_baseline(path: Path) -> bool:
    """Return whether a file starts as a baseline does. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(_MARK) + 10).lstrip().startswith(b'{"' + _MARK.encode())


def accept(
    baseline: Sequence[Observation],
    run: Sequence[Observation],
    *,
    prune: bool = False,
    failures: bool = False,
) -> Acceptance:
    """Put what a run says into a baseline.

    Args:
        baseline: what was accepted before; empty for a new one.
        run: the part of a run that is accepted.
        prune: remove subjects that are not in the run.
        failures: accept also what failed, though no test declares it.
    """
    paired = pair(baseline, run, {})
    known = {id(new): old for old, new in paired.same}
    kept = {observation.subject: observation for observation in baseline}
    updated, added, refused = [], [], []
    for observation in run:
        before, after = known.get(id(observation)), _keep(observation)
        if after.wrong and not failures and (before is None or before.verdict != after.verdict):
            refused.append(after.subject)
            continue
        if before is None:
            added.append(after.subject)
            kept[after.subject] = after
            continue
        after = replace(after, subject=both_know(before.subject, after.subject))
        if before.subject != after.subject or _different(before, after):
            updated.append(after.subject)
            del kept[before.subject]
            kept[after.subject] = after
    gone = {observation.subject for observation in (*paired.missing, *paired.unclear)}
    gone |= {old.subject for old, _ in (*paired.renamed, *paired.moved)}
    removed = sorted(gone) if prune else []
    for subject in removed:
        del kept[subject]
    return Acceptance(tuple(kept[subject] for subject in sorted(kept)), *map(tuple, (updated, added, removed, refused)))


def _keep(observation: Observation) -> Observation:
    numbers = {key: number for key, number in observation.numbers.items() if key[1] != "host"}
    return replace(observation, numbers=numbers, record=None)


def _different(before: Observation, after: Observation) -> bool:
    """Return whether a subject's lines are other ones, whatever environment they came from.

    A noisy number is kept until another one of the subject is different.
    """
    facts = [[side.facts.get(cause, "") for cause in _OF_PROGRAM] for side in (before, after)]
    exact = [{key: (number.value, number.unit) for key, number in side.numbers.items() if not noisy(key[1])}
             for side in (before, after)]  # fmt: skip
    return (
        facts[0] != facts[1]
        or exact[0] != exact[1]
        or before.numbers.keys() != after.numbers.keys()
        or (before.verdict, before.question, before.inputs) != (after.verdict, after.question, after.inputs)
    )


def dumps(observations: Iterable[Observation]) -> str:
    """Return the text of a baseline."""
    environments: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    for observation in sorted(observations, key=lambda observation: observation.subject):
        environment = {
            "facts": {str(cause): observation.facts.get(cause, "") for cause in _OF_PLACE},
            "versions": dict(sorted(observation.versions.items())),
            "lowering": observation.lowering,
            "flags": list(observation.flags),
        }
        name = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:8]
        environments[name] = environment
        lines += map(_line, _rows(observation, name))
    head = [{_MARK: SCHEMA_VERSION}, *({"environment": name, **environments[name]} for name in sorted(environments))]
    return "\n".join([*map(_line, head), *lines]) + "\n"


def _rows(observation: Observation, environment: str) -> Iterator[object]:
    subject = asdict(observation.subject)
    yield {
        "subject": {name: value for name, value in subject.items() if value or name not in _LATER},
        "verdict": observation.verdict,
        "question": observation.question,
        "inputs": observation.inputs,
        **{str(cause): observation.facts.get(cause, "") for cause in _OF_PROGRAM},
        "environment": environment,
    }
    for (metric, provenance), number in sorted(observation.numbers.items()):
        value = int(number.value) if float(number.value).is_integer() else number.value
        samples = [list(number.samples)] if noisy(provenance) else []
        yield [observation.subject.label, observation.subject.npu, metric, provenance, value, number.unit, *samples]


def _line(row: object) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True)


def read_baseline(path: Path) -> tuple[Observation, ...]:
    """Read a baseline.

    Raises:
        OSError: the file cannot be read.
        UsageError: it is not a baseline, is one of another version, or is damaged.
    """
    rows = _parse(path)
    head = next(rows, None)
    if not isinstance(head, dict) or _MARK not in head:
        raise _refusal(f"{path} is not a baseline: its first line does not say so")
    if head[_MARK] != SCHEMA_VERSION:
        raise _refusal(f"{path} is a baseline of version {head[_MARK]!r}; this program reads {SCHEMA_VERSION}")
    environments: dict[str, Mapping[str, Any]] = {}
    observations: list[Observation] = []
    for number, row in enumerate(rows, start=2):
        try:
            if isinstance(row, dict) and "subject" in row:
                if row["environment"] not in environments:
                    raise ValueError(f"no line before it is its environment, {row['environment']!r}")
                observations.append(_observation(row, environments[row["environment"]]))
            elif isinstance(row, dict):
                environments[row["environment"]] = row
            elif not observations:
                raise ValueError("it has a number, and no line before it is a subject")
            else:
                observations[-1] = _with_number(observations[-1], row)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise _refusal(f"{path}:{number} is not a line of a baseline: {_words(error)}") from error
    subjects = [observation.subject for observation in observations]
    if sorted(set(subjects)) != subjects:
        raise _refusal(f"{path} has a subject twice, or is not sorted")
    return tuple(observations)


def _refusal(message: str) -> UsageError:
    return UsageError(message, hint="`ethos-hil accept` writes a baseline")


def _words(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _parse(path: Path) -> Iterator[object]:
    try:
        text = read_text(path, most=_MOST)
    except ValueError as error:  # UTF-8, or a size that no baseline has
        raise _refusal(f"{path} is not the text of a baseline: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            marker = line.startswith(("<<<<<<<", "=======", ">>>>>>>"))
            why = "a conflict of a merge is left in it" if marker else f"not JSON: {error}"
            raise _refusal(f"{path}:{number}: {why}") from error


def _observation(row: Mapping[str, Any], environment: Mapping[str, Any]) -> Observation:
    facts = {Cause(name): str(value) for name, value in environment["facts"].items()}
    facts |= {cause: str(row[cause]) for cause in _OF_PROGRAM}
    rank(str(row["verdict"]))  # refuses what is not a verdict
    return Observation(
        Subject(**{name: str(value) for name, value in row["subject"].items()}),
        str(row["verdict"]),
        str(row["question"]),
        str(row["inputs"]),
        facts,
        {str(name): str(version) for name, version in environment["versions"].items()},
        tuple(map(str, environment["flags"])),
        str(environment["lowering"]),
        {},
    )


def _with_number(observation: Observation, row: object) -> Observation:
    """Return an observation with the number of a line, which has to be one of the same subject."""
    if not isinstance(row, list) or row[:2] != [observation.subject.label, observation.subject.npu]:
        raise ValueError("it is about another subject than the line before")
    metric, provenance, value, unit, *rest = row[2:]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    key: Key = (str(metric), str(provenance))
    if key in observation.numbers:
        raise ValueError(f"{metric} is there twice")
    samples = tuple(map(float, rest[0])) if rest else (value,)
    numbers = {**observation.numbers, key: Number(value, str(unit), samples)}
    return replace(observation, numbers=numbers)
