"""What is followed from run to run: its key in records and in a history, and what outputs call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ethos_hil.base.dataclasses import dataclass, fields
from ethos_hil.base.record import Record
from ethos_hil.results.compaction.columns import DIGITS, IS_MODEL, upstream_of

NOWHERE = "none"
"""The target of a test that failed before it had one."""
UNKNOWN = ("", NOWHERE)
"""What stands for a part of a place that is not known."""
EARLY = ("memory_mode", "system_config", "target", "soc", "runner", "scheme")
"""What a run that failed early may not know."""
ALWAYS = ("case", "scheme")
"""What baselines of earlier versions do not say of any run."""


@dataclass(frozen=True, order=True)
class Subject:
    """What is followed from run to run: a test or model at one place, whatever is asked of it.

    Attributes:
        label: the suite's test, by pytest's id, or the model.
        npu, memory_mode, system_config: what it was compiled for.
        target, soc: where it ran.
        runner: the first 16 digits of the digest of a user's runner, "" for our firmware.
        method: the program's method.
        case: of a benchmark, the case's name: a grid may have several of one model.
        scheme: how a model is quantised, "a16w8"; "" where that is not known. It is "" for a suite's test, whose id
            stands for all that is asked: one that is quantised in another way now was edited.
        upstream: what lowered it in place of the environment of ethos-hil, "executorch==1.5.0"; "" for that.
    """

    label: str
    npu: str
    memory_mode: str
    system_config: str
    target: str
    soc: str
    runner: str
    method: str
    case: str = ""
    scheme: str = ""
    upstream: str = ""

    @property
    def what(self) -> tuple[str, str, str, str]:
        """What it is, wherever it runs."""
        return self.label, self.method, self.case, self.scheme

    @property
    def name(self) -> str:
        """What to call it: its label, with what tells it from others of that label: "net.py:net (wide, a16w8)"."""
        more = ", ".join(filter(None, (self.case, self.scheme)))
        return f"{self.label} ({more})" if more else self.label


FIELDS = tuple(field.name for field in fields(Subject))
_COLUMNS = {"case": "bench_case", "scheme": f"CASE WHEN {IS_MODEL} THEN scheme ELSE '' END"}
COLUMNS = {name: _COLUMNS.get(name, name) for name in FIELDS}
"""The subject of a row of a history's view `records`, field by field, as SQL."""
KEY = f"struct_pack({', '.join(f'{chr(34)}{name}{chr(34)} := {column}' for name, column in COLUMNS.items())})"
"""The same as one value of SQL: `Subject(**row["key"])` is the subject."""


def subject_of(record: Record) -> Subject:
    """Return the subject of a record."""
    target, artifact = record.target, record.artifact
    return Subject(
        label=record.label,
        npu=record.npu,
        memory_mode=record.memory_mode,
        system_config=record.system_config,
        target=target.name,
        soc=target.soc,
        runner=record.runner.sha256[:DIGITS] if record.runner is not None else "",
        method=record.method,
        case=record.bench.case if record.bench is not None else "",
        scheme=artifact.scheme if artifact is not None and record.test is None else "",
        upstream=upstream_of(record),
    )


_WHERE = ("npu", "memory_mode", "target")
_UPSTREAM = ("upstream",)
"""Nothing is not unknown here: it is the environment of ethos-hil."""


class Names:
    """What an output calls its subjects: by their labels, with no more than what tells them from one another."""

    def __init__(self, subjects: Iterable[Subject]) -> None:
        """Look at all that the output names."""
        by_label: dict[str, list[Subject]] = {}
        for subject in dict.fromkeys(subjects):
            by_label.setdefault(subject.label, []).append(subject)
        self._more: dict[Subject, str] = {}
        self._where: dict[Subject, tuple[str, ...]] = {}
        for alike in by_label.values():
            if len(alike) > 1:
                self._tell_apart(alike)

    def _tell_apart(self, subjects: list[Subject]) -> None:
        own = _several(subjects, ("method", "case", "scheme"), UNKNOWN)
        where = (*_several(subjects, _WHERE, UNKNOWN), *_several(subjects, _UPSTREAM))
        alike: dict[tuple[str, ...], list[Subject]] = {}
        for subject in subjects:
            alike.setdefault(_values(subject, (*_WHERE, *_UPSTREAM, *own)), []).append(subject)
        for group in alike.values():
            rest = _several(group, (name for name in FIELDS if name not in own))
            for subject in group:
                self._more[subject] = ", ".join(filter(None, _values(subject, (*own, *rest))))
                self._where[subject] = tuple(part for part in _values(subject, where) if part not in UNKNOWN)

    def more(self, subject: Subject) -> str:
        """Return what tells a subject from others of its label wherever these are: "a16w8"; "" for nothing."""
        return self._more.get(subject, "")

    def name(self, subject: Subject) -> str:
        """Return its name beside its NPU, memory mode and target: "net.py:net (a16w8)"."""
        more = self.more(subject)
        return f"{subject.label} ({more})" if more else subject.label

    def where(self, subject: Subject) -> tuple[str, ...]:
        """Return what tells its place from those of others of its label, of NPU, memory mode and target."""
        return self._where.get(subject, ())

    def full(self, subject: Subject) -> str:
        """Return its name where no place stands beside it: "net.py:net (a16w8) on board:b"."""
        where = ", ".join(self.where(subject))
        return f"{self.name(subject)} on {where}" if where else self.name(subject)


def _values(subject: Subject, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(getattr(subject, name) for name in names)


def _several(group: Sequence[Subject], names: Iterable[str], unknown: Iterable[str] = ()) -> tuple[str, ...]:
    """Return in which of some fields subjects differ. What is not known of one is not another one."""
    return tuple(name for name in names if len({getattr(subject, name) for subject in group}.difference(unknown)) > 1)
