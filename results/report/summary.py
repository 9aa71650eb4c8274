"""How a run went, in a sentence, and what to know before its numbers are read."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import amount, count_of, list_of
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import FAR, Account, Accounted
from ethos_hil.results.gate.change import VERDICT, Change, RunComparison, Word
from ethos_hil.results.report.chart import element, picture
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import Names, Subject

_TOLD = (Word.REGRESSED, Word.UNSTABLE, Word.MISSING, Word.INCOMPARABLE, Word.EDITED, Word.UNKNOWN, Word.IMPROVED,
         Word.CHANGED, Word.NEW, Word.ACCEPTED)  # fmt: skip
"""Words of a comparison in the order in which the sentence has them."""
SMALL = 0.001
"""The part by which a number has to move to be more than small print: a thousandth of a model's cycles is less than
another board, clock or input makes, and no user notices it. The gate counts it all the same.
"""
_MOST_FAR = 10
"""How many tests a warning names."""
SPOKEN: Mapping[Word, str] = {
    Word.REGRESSED: "got worse",
    Word.INCOMPARABLE: "not comparable",
    Word.UNKNOWN: "with too few samples",
}
"""What is said of tests in place of a word."""


@dataclass(frozen=True)
class Summary:
    """The head of the report.

    Attributes:
        passed: whether no one has to look at anything.
        status: that in words.
        sentence: how the run went.
        counts: how many tests stand how: the standing and the number.
        bar: these as a picture.
        problems: what is red beside failing tests and numbers that moved.
        moved: what else is different from the other side: versions, machine, firmware.
        never_ran: what did not run, and why, with how many and some of their names.
        warnings: what else the reader has to know, such as records that cannot be read.
    """

    passed: bool
    status: str
    sentence: str
    counts: tuple[tuple[Standing, int], ...]
    bar: Markup
    problems: tuple[str, ...]
    moved: tuple[str, ...]
    never_ran: tuple[tuple[str, tuple[str, ...]], ...]
    warnings: tuple[str, ...]


def summary(results: RunResults, account: Account, new: int | None, names: Names) -> Summary:
    """Return the head of the report of a run.

    Args:
        results: the run.
        account: what it says.
        new: how many of the tests that are red were not in the last whole night before; None where that is not known.
        names: what to call tests and models.
    """
    tally = account.counts
    counts = tuple((standing, tally[standing]) for standing in Standing if tally[standing])
    comparison = account.comparison
    return Summary(
        passed=account.green and tally[Standing.VERIFIED] > 0,
        status=_status(account, new),
        sentence=_sentence(account),
        counts=counts,
        bar=_bar(counts),
        problems=account.beside,
        moved=comparison.notes if comparison is not None else (),
        never_ran=tuple(_never_ran(account.tests, comparison, names)),
        warnings=tuple(_warnings(results, account, names)),
    )  # fmt: skip


def _status(account: Account, new: int | None) -> str:
    """Return what someone has to look at, each thing once: a test that fails is not one that got worse, too."""
    if account.down:
        return f"Not run: {list_of(account.down)} could not be used"
    phrases = [*_red_tests(account, new), *_failing_changes(account)]
    if account.unstable:
        phrases.append(_verbal(len(account.unstable), "test", "is unstable", "are unstable"))
    problems = len(account.problems) + sum(bool(test.red) and not test.standing.red for test in account.tests)
    if problems:
        phrases.append(count_of(problems, "problem with the run", "problems with the run"))
    if phrases:
        return ", ".join(phrases)
    if not account.counts[Standing.VERIFIED]:
        return "Nothing was verified"
    return "The gate passes" if account.comparison is not None else "Every answer that was asked for is right"


def _red_tests(account: Account, new: int | None) -> Iterator[str]:
    verbs = {Standing.FAILED: ("fails", "fail"), Standing.MISSING: ("is missing", "are missing"),
             Standing.UNVERIFIED: ("is not verified", "are not verified")}  # fmt: skip
    phrases = [_verbal(account.counts[standing], "test", *verbs[standing]) for standing in verbs
               if account.counts[standing]]  # fmt: skip
    red = sum(account.counts[standing] for standing in verbs)
    if phrases and new is not None:
        all_of = ", all of them" if len(phrases) > 1 else ""
        phrases[-1] += f"{all_of} since tonight" if new == red else f" ({new:,} since tonight)" if new else " as before"
    yield from phrases


def _failing_changes(account: Account) -> Iterator[str]:
    """Yield what fails the gate beside tests that are red themselves."""
    for word, count in _words(account, account.failing):
        small = all(move_of(change) < SMALL for change in account.failing if change.word is word)
        by = f", by less than {SMALL:.1%}" if small else ""
        yield f"{count_of(count, 'test')} {SPOKEN.get(word, word)}{by}"


def move_of(change: Change) -> float:
    """Return the part by which a number moved; infinite for what is not a number, or was 0."""
    return abs(change.ratio - 1) if change.ratio is not None else math.inf


def _words(account: Account, changes: Iterable[Change]) -> Iterator[tuple[Word, int]]:
    """Yield how many tests became what, without those that are red: these are counted as failing."""
    red = {test.subject for test in account.tests if test.standing.red}
    words: dict[Word, set[Subject]] = {}
    for change in changes:
        if change.subject not in red:
            words.setdefault(change.word, set()).add(change.subject)
    return ((word, len(words[word])) for word in _TOLD if word in words)


def _verbal(count: int, noun: str, singular: str, plural: str) -> str:
    """Return "1 test fails" or "2 tests fail"."""
    return f"{count_of(count, noun)} {singular if count == 1 else plural}"


def _sentence(account: Account) -> str:
    """Return how many are right, how many someone has to look at, and what became of them since the other side."""
    tally, comparison = account.counts, account.comparison
    red = [f"{tally[standing]:,} {standing}" for standing in Standing if standing.red and tally[standing]]
    stands = [account.told(Standing.VERIFIED), *red]
    if comparison is None:
        return f"{', '.join(stands)}."
    words = [f"{count:,} {SPOKEN.get(word, word)}" for word, count in _words(account, comparison.changes)]
    nothing = "nothing else changed" if red else "nothing changed"
    return f"{', '.join(stands)}; {', '.join(words) or nothing} against {comparison.before}."


def _bar(counts: Sequence[tuple[Standing, int]]) -> Markup:
    """Return the counts as one bar. A part that is too small to see is as wide as can be seen."""
    total = sum(count for _, count in counts)
    widths = [max(6.0, 1000 * count / total) for _, count in counts]
    scale = 1000 / sum(widths) if widths else 1.0
    parts, at = [], 0.0
    for (standing, _), width in zip(counts, widths, strict=True):
        parts.append(element("rect", x=at, y=0, width=max(1.0, width * scale - 2), height=10, rx=1,
                             class_=f"fill-{standing.letter}"))  # fmt: skip
        at += width * scale
    label = ", ".join(f"{count:,} {standing}" for standing, count in counts)
    return picture(1000, 10, label, *parts, class_="spark")


def _never_ran(
    tests: Iterable[Accounted], comparison: RunComparison | None, names: Names
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield why something did not run, with the names of what did not."""
    reasons: dict[str, list[str]] = {}
    for test in tests:
        if test.standing is Standing.SKIPPED:
            failure = test.record.failure
            why = failure.message if failure is not None else "no reason is given"
            reasons.setdefault(why, []).append(names.full(test.subject))
    if comparison is not None:
        for change in comparison.changes:
            if change.word is Word.MISSING and change.metric == VERDICT:
                reasons.setdefault(f"was in {comparison.before} and is not here", []).append(names.full(change.subject))
    for reason, labels in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield reason, tuple(labels)


def _warnings(results: RunResults, account: Account, names: Names) -> Iterator[str]:
    yield from account.notes
    if account.far:
        yield f"verified {FAR}: {list_of([names.full(test.subject) for test in account.far], _MOST_FAR)}"
    versions: dict[str, set[str]] = {}
    for manifest in results.manifests:
        tools = manifest.get("versions")
        for name, version in tools.items() if isinstance(tools, dict) else ():
            versions.setdefault(str(name), set()).add(str(version))
    for name, variants in sorted(versions.items()):
        if len(variants) > 1:
            yield f"the shards had different versions of {name}: {', '.join(sorted(variants))}"
    repeated = sum(test.attempts > 1 for test in account.tests)
    if repeated:
        yield f"{count_of(repeated, 'test')} ran more than once; the worst attempt that could be made counts"


def facts(results: RunResults) -> tuple[tuple[str, str], ...]:
    """Return what the run says of itself: commit, machine, size."""
    first = results.manifests[0] if results.manifests else {}
    machine = first.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    commit = str(first.get("commit") or "")
    dirty = " with changes" if first.get("dirty") else ""
    rows = {
        "run": results.name,
        "commit": f"{commit[:12]}{dirty}" if commit else "",
        "machine": f"{machine.get('processor', '')}, {machine.get('cores', '')} cores" if machine else "",
        "folders": f"{len(results.folders)} shards" if len(results.folders) > 1 else "",
        "records": amount(len(results.records)),
    }
    return tuple((name, value) for name, value in rows.items() if value)


def origins(results: RunResults) -> tuple[str, ...]:
    """Return for each folder how it was made, and on which machine."""
    texts = []
    for manifest in results.manifests:
        command, machine = manifest.get("command"), manifest.get("machine")
        parts = [f"shard {manifest['shard']}" if manifest.get("shard") else "",
                 shlex.join(map(str, command)) if isinstance(command, list) else "",
                 ", ".join(str(fact) for fact in machine.values()) if isinstance(machine, dict) else ""]  # fmt: skip
        texts.append("; ".join(part for part in parts if part))
    return tuple(texts)
