"""A run as Markdown, for the summary of a CI job: a sentence about how it went, then what changed and what failed.

What comes from models, files and targets is code, so that it is not markup and calls no one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ethos_hil.base.plain_text import count_of, cut, one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import FAR, Account, Accounted, account_of
from ethos_hil.results.gate.change import Change, RunComparison, Word
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import Names


def code(text: str, length: int = 200) -> str:
    """Return a text as code on one line, that may stand in a sentence or in a cell of a table; "" for an empty one."""
    shown = cut(one_line(text), length)
    if not shown:
        return ""
    if "|" in shown:
        # In a cell it would have to be escaped, and elsewhere not. An entity is never markup.
        plain = "".join(char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in shown)
        return f"<code>{plain}</code>"
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    blank = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def row(cells: Iterable[str]) -> str:
    """Return a row of a table. The cells are Markdown."""
    return f"| {' | '.join(cells)} |"


def head(titles: Sequence[str], *, right: Sequence[str] = ()) -> list[str]:
    """Return the two lines that a table starts with.

    Args:
        titles: of the columns.
        right: those of columns of numbers, which are flush right.
    """
    return [row(titles), f"|{'|'.join('---:' if title in right else '---' for title in titles)}|"]


MOST = 1 << 20
"""Bytes that GitHub shows of the summary of a step; of a longer one it shows nothing."""
_CUT = "\n_The rest, {lines:,} lines, is left out: a job summary may have 1 MiB._\n"
_CHANGES, _MOVED, _FAILURES = 30, 3, 200
"""Rows for one cause, operations named in a row, and failures that are shown."""
_NOTE = 300
_PROFILES = ("MI", "BI")
"""The columns that come first; the others are in alphabetical order."""


def write(results: RunResults, comparison: RunComparison | None) -> str:
    """Return the summary, cut at a line if it would be longer than GitHub shows."""
    account = account_of(results, comparison)
    tests = account.tests
    changes = comparison.changes if comparison is not None else ()
    names = Names((*(test.subject for test in tests), *(change.subject for change in changes)))
    lines = [
        f"# ethos-hil: {account.colour}{_gate(account)}", "", *_sentences(results, account), "", *_problems(account),
        *(_changes(comparison, names) if comparison is not None else ()),
        *_failures(tests, names), *_matrix(tests), *_versions(results),
    ]  # fmt: skip
    room = MOST - len(_CUT.format(lines=len(lines)).encode())
    used = 0
    for number, line in enumerate(lines):
        used += len(line.encode()) + 1
        if used > room:
            return "\n".join(lines[:number]) + "\n" + _CUT.format(lines=len(lines) - number)
    return "\n".join(lines) + "\n"


def _gate(account: Account) -> str:
    if account.comparison is None:
        return ""
    return "; the gate fails" if account.failing else "; the gate passes"


def _sentences(results: RunResults, account: Account) -> Iterator[str]:
    kinds = Counter(str(test.record.failure.kind) for test in account.tests
                    if test.record.failure is not None and test.standing is Standing.FAILED)  # fmt: skip
    parts = []
    for standing in Standing:
        if count := account.counts[standing]:
            failed = standing is Standing.FAILED
            why = f" ({', '.join(f'{n:,} {kind}' for kind, n in kinds.most_common())})" if failed else ""
            far = f" ({len(account.far):,} of them {FAR})" if standing is Standing.VERIFIED and account.far else ""
            parts.append(f"**{count:,} {standing}**{why}{far}")
    yield f"{code(results.name)}, started at {code(results.created)}: {', '.join(parts) or 'nothing ran'}."
    again = sum(len(test.spoilt) for test in account.tests)
    if again:
        attempts = count_of(again, "attempt")
        yield f"{attempts} that the target has spoilt, and another one has followed, count for nothing."
    comparison = account.comparison
    if comparison is None:
        return
    words = [f"**{comparison.counts[word]:,} {word}**" for word in Word
             if word is not Word.UNCHANGED and comparison.counts.get(word)]  # fmt: skip
    words.append(f"{comparison.counts.get(Word.UNCHANGED, 0):,} unchanged")
    failing = len(account.failing)
    gate = f"The gate fails for {count_of(failing, 'change')}." if failing else "The gate passes."
    yield f"Against {code(comparison.before)}: {', '.join(words)}. {gate}"
    if comparison.notes:
        yield ""
        yield from (f"- {code(note, _NOTE)}" for note in comparison.notes)


def _problems(account: Account) -> Iterator[str]:
    """Yield what is red beside failing tests and numbers that moved."""
    problems = account.beside
    if problems:
        yield from ("## What else is red", "")
        yield from (f"- {code(problem, _NOTE)}" for problem in problems[:_FAILURES])
        if len(problems) > _FAILURES:
            yield from ("", f"And {len(problems) - _FAILURES:,} more.")
        yield ""


def _changes(comparison: RunComparison, names: Names) -> Iterator[str]:
    if not comparison.changes:
        return
    yield from ("## Changes", "")
    for (cause, detail), changes in comparison.by_cause().items():
        counts = Counter(str(change.word) for change in changes)
        words = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
        why = ": ".join(filter(None, [str(cause), code(detail, _NOTE)]))
        yield from (f"### {words}" + (f" by {why}" if why else ""), "")
        yield from head(("", "what", "NPU", "number", "before", "after", "", "moved"), right=("before", "after"))
        yield from (_change(change, names) for change in changes[:_CHANGES])
        if len(changes) > _CHANGES:
            yield from ("", f"And {len(changes) - _CHANGES:,} more.")
        yield ""


def _change(change: Change, names: Names) -> str:
    number = " ".join(filter(None, [code(change.metric), f"({code(change.provenance)})" if change.provenance else ""]))
    percent = f"{(change.ratio - 1) * 100:+.2f} %" if change.ratio is not None else ""
    moved = [" ".join(filter(None, [code(op.name), code(op.source), f"{op.old:,} → {op.new:,}"]))
             for op in change.rows[:_MOVED]]  # fmt: skip
    if len(change.rows) > _MOVED:
        moved.append(f"and {len(change.rows) - _MOVED:,} more")
    subject = change.subject
    place = ", ".join(filter(None, dict.fromkeys((subject.npu, subject.memory_mode, *names.where(subject)))))
    return row([str(change.word), code(names.name(subject)), code(place), number, _value(change.before),
                _value(change.after), percent, "<br>".join(moved)])  # fmt: skip


def _failures(tests: Sequence[Accounted], names: Names) -> Iterator[str]:
    failures = [test for test in tests if test.standing.red]
    if not failures:
        return
    yield from ("## Failures", "", *head(("what", "NPU", "target", "kind", "message", "line")))
    for test in failures[:_FAILURES]:
        record, failure = test.record, test.record.failure
        place = ", ".join(filter(None, dict.fromkeys((record.npu, *names.where(test.subject)))))
        kind, message = (str(failure.kind), failure.message) if failure is not None else (str(record.verdict), "")
        yield row(map(code, (names.name(test.subject), place, record.target.name, kind, message, _line(record))))
    if len(failures) > _FAILURES:
        yield from ("", f"And {len(failures) - _FAILURES:,} more.")
    yield ""


def _line(record: Record) -> str:
    """Return the line of the model where a wrong answer starts, else that of the test's declaration."""
    if record.divergence is not None and record.divergence.source:
        return record.divergence.source
    return record.test.source if record.test is not None else ""


def _matrix(tests: Iterable[Accounted]) -> Iterator[str]:
    """Yield a table of operators and models by profile; what is of no test is by NPU."""
    table: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for entry in tests:
        test, record = entry.record.test, entry.record
        name, column = (test.operator, test.profile) if test is not None else (record.model, record.npu)
        table[name][column or "host"][entry.standing.letter] += 1
    columns = sorted({column for cells in table.values() for column in cells},
                     key=lambda column: (column not in _PROFILES, column != _PROFILES[0], column))  # fmt: skip
    used = {letter for cells in table.values() for counts in cells.values() for letter in counts}
    yield from ("## Operators and models", "")
    yield from head(("", *map(code, columns)))
    for name, cells in sorted(table.items()):
        yield row([code(name), *(_cell(cells[column]) if column in cells else "" for column in columns)])
    yield from ("", ", ".join(f"{standing.letter} {standing}" for standing in Standing if standing.letter in used), "")


def _cell(counts: Counter[str]) -> str:
    return " ".join(f"{counts[standing.letter]}{standing.letter}" for standing in Standing if counts[standing.letter])


def _versions(results: RunResults) -> Iterator[str]:
    by_name: dict[str, dict[str, None]] = {}
    for manifest in results.manifests:
        versions = manifest.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            by_name.setdefault(str(name), {})[str(version)] = None
    if by_name:
        yield ", ".join(f"{code(name)} {' and '.join(map(code, versions))}" for name, versions in by_name.items()) + "."


def _value(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return code(value or "")
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"


EXPORTER = RunExporter("summary", ".md", "Markdown for the summary of a CI job", write)
