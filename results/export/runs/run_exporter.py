"""What an exporter of whole runs is, those of ethos-hil and others, and what one of runs or of records makes.

No two records of a run have one name in what they write, and a name is the same in every run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.base.plugins import PluginGroup
from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import EXPORTERS, Exporter, NotExportable
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import subject_of


@dataclass(frozen=True)
class RunExporter:
    """A format that a run can be written in. A distribution registers it in the entry point group
    `ethos_hil.run_exporters`.

    Attributes:
        name: what `ethos-hil export --to` takes. No exporter of records has it.
        suffix: what names of such files end in, e.g. ".xml".
        description: one line about it.
        write: returns the content of a file with the run. The second argument is what is different from another run or
            a baseline, None where it is compared with nothing. It reads nothing else. It raises `NotExportable` where
            the run lacks what the format shows.
    """

    name: str
    suffix: str
    description: str
    write: Callable[[RunResults, RunComparison | None], bytes | str]


_GONE = {
    "chrome": "use perfetto, which ui.perfetto.dev opens",
    "folded": "use perfetto, which ui.perfetto.dev opens, or parquet, for a table of your own",
    "github-benchmark": "use points-csv, or openmetrics",
    "pytorch-benchmark": "use points-parquet, with all numbers",
}
"""Formats that there were, and what to use instead."""
RUN_EXPORTERS = PluginGroup("ethos_hil.run_exporters", RunExporter, "exporter of runs")


def is_of_runs(name: str) -> bool:
    """Return whether a format is of whole runs; else it is of records.

    Raises:
        UsageError: there is no such format; lists all.
        ToolError: there is one of both kinds.
    """
    records, runs = EXPORTERS.names(), RUN_EXPORTERS.names()
    if name in records and name in runs:
        raise ToolError(
            f"the exporter {name!r} is registered twice: of records by {EXPORTERS.owner(name)}, of runs by "
            f"{RUN_EXPORTERS.owner(name)}",
            hint="uninstall one of them",
        )
    if name not in records and name not in runs:
        if name in _GONE:
            raise UsageError(f"there is no exporter {name!r} any more", hint=_GONE[name])
        suggestion = did_you_mean(name, [*records, *runs])
        raise UsageError(
            f"no exporter is called {name!r}",
            hint=f"{suggestion}exporters: {', '.join(records)}; of whole runs: {', '.join(runs)}",
        )
    return name in runs


def export_record(record: Record, name: str) -> tuple[Exporter, bytes]:
    """Return an exporter of records by its name, and what it makes of a record.

    Raises:
        UsageError: there is no such exporter, or the record lacks what the format shows (`NotExportable`).
        ToolError: the exporter of another distribution does not work.
    """
    exporter = EXPORTERS.get(name)
    return exporter, _content(EXPORTERS, name, lambda: exporter.write(record))


def export_run(results: RunResults, comparison: RunComparison | None, name: str) -> bytes:
    """Return a run in the format called `name`.

    Args:
        results: the run.
        comparison: what is different from another run or a baseline; None where it is compared with nothing.
        name: one of `RUN_EXPORTERS`.

    Raises:
        UsageError: there is no such exporter, or the run lacks what the format shows.
        ToolError: the exporter of another distribution does not work.
    """
    exporter = RUN_EXPORTERS.get(name)
    return _content(RUN_EXPORTERS, name, lambda: exporter.write(results, comparison))


def _content(group: PluginGroup[Any], name: str, write: Callable[[], object]) -> bytes:
    """Return what an exporter writes. Its own errors, and what is not content, are the fault of its author."""
    try:
        content = write()
        content = content.encode() if isinstance(content, str) else content
    except NotExportable:
        raise
    except (Exception, SystemExit) as error:  # the status of sys.exit() would be that of the command
        owner = group.owner(name)
        raise ToolError(
            f"the exporter {name!r} of {owner} failed: {type(error).__name__}: {error}",
            hint=f"tell those who make {owner}; --debug shows where",
        ) from error
    if not isinstance(content, bytes):
        owner = group.owner(name)
        raise ToolError(
            f"the exporter {name!r} of {owner} returned a {type(content).__name__} in place of text or bytes",
            hint=f"tell those who make {owner}",
        )
    return content


_DIGITS = 12
PARTS = ("npu", "memory_mode", "target", "soc", "system_config", "method", "runner", "bench_case", "scheme",
         "upstream", "inputs", "part")  # fmt: skip
"""What tells records of one test apart, in the order in which it is looked at."""
SELDOM = ("bench_case", "scheme", "upstream")
"""Parts that are told only of records that are alike in all others but the inputs: the others were there first, and CI
systems follow names."""
_Parts = Mapping[str, str]


def parts_of(record: Record) -> _Parts:
    """Return what a record has of `PARTS`."""
    subject = subject_of(record)
    return {
        "npu": subject.npu, "memory_mode": subject.memory_mode, "target": subject.target, "soc": subject.soc,
        "system_config": subject.system_config, "method": subject.method, "runner": subject.runner[:_DIGITS],
        "bench_case": subject.case, "scheme": subject.scheme, "upstream": subject.upstream,
        "inputs": record.inputs_sha256[:_DIGITS],
        "part": record.within.part,
    }  # fmt: skip


def distinctions(records: Sequence[Record], always: Sequence[str]) -> list[str]:
    """Return what to put behind the label of each record: "[ethos-u55-128, Sram_Only]".

    Args:
        records: all of a run.
        always: the parts that are always there, where a record has them. Another one is there where records with the
            same label and the same parts of these differ in it. A record that is like one before it in all parts has
            its number.
    """
    parts = [{**parts_of(record), "label": record.label} for record in records]
    texts = [""] * len(records)
    for group in alike(range(len(parts)), parts, ("label", *always)):
        extra = _choose_parts([parts[number] for number in group], always)
        seen: Counter[tuple[str, ...]] = Counter()
        for number in group:
            values = tuple(parts[number][name] for name in (*always, *extra))
            seen[values] += 1
            shown = [*filter(None, values), *([f"#{seen[values]}"] if seen[values] > 1 else ())]
            texts[number] = f"[{', '.join(shown)}]" if shown else ""
    return texts


def alike(numbers: Iterable[int], parts: Sequence[_Parts], names: Iterable[str]) -> list[list[int]]:
    """Return the numbers of what has the same in some parts, in groups."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number in numbers:
        groups[tuple(parts[number][name] for name in names)].append(number)
    return list(groups.values())


def _choose_parts(group: Sequence[_Parts], always: Sequence[str]) -> list[str]:
    """Return which parts tell records apart. Inputs may be edited, so a case or scheme comes before them."""

    def differing(names: Iterable[str], among: Sequence[str]) -> list[str]:
        groups = [[group[at] for at in numbers] for numbers in alike(range(len(group)), group, among)]
        return [name for name in names if any(len({parts[name] for parts in members}) > 1 for members in groups)]

    others = differing((name for name in PARTS if name not in (*always, *SELDOM, "inputs")), ())
    own = differing((name for name in SELDOM if name not in always), others)
    inputs = differing(("inputs",), (*others, *own) if own else ()) if "inputs" not in always else []
    return [name for name in PARTS if name in (*others, *own, *inputs)]
