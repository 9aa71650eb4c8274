"""A run as JUnit's XML, for CI systems: a test case for each record.

Names are those that pytest gives, with the NPU behind: nothing in them changes from run to run, so that a CI system
follows each test. The elements are those of the schema of Jenkins' xUnit plugin, and `properties` in a test case, which
pytest writes too. An attempt that the target has spoilt is in the test case of the one that followed, as Maven does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from ethos_hil.base.plain_text import cut, escape, exact, one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import RED, FailureKind, Standing
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs.run_exporter import RunExporter, distinctions
from ethos_hil.results.gate.account import Account, Accounted, account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import Names, Subject

SUITE = "ethos-hil"
NIGHT = "ethos-hil.run"
"""The class name of what is red beside tests."""
MOST_BYTES, MOST_OBJECTS = 30_000_000, 250_000
"""What GitLab reads of a file: bytes (its documentation), and elements, attributes and texts
(gitlab-org/gitlab issue 507482)."""
_MESSAGE, _LINES, _LINE = 2_000, 100, 500
"""Characters of a message, and how many of a target's last lines with how many characters each are shown."""
_ERRORS = frozenset({FailureKind.INTERNAL})
"""Kinds that are not failures of what is tested."""
_SECONDS = ("total_seconds", "target_seconds")
"""Metrics with the wall time of a record, the most complete one first."""


def write(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return a document with one suite. What is red beside tests has a test case of its own: a shard that is missing, a
    session that died, a number for which the gate fails.

    Where it would be more than GitLab reads, consoles are left out, and then the properties of the test cases.

    Raises:
        NotExportable: it is more all the same.
    """
    account = account_of(results, comparison)
    for console, properties in ((True, True), (False, True), (False, False)):
        document = _document(results, account, console=console, properties=properties)
        if sum(2 + len(element.attrib) for element in document.iter()) > MOST_OBJECTS:
            continue
        content: bytes = tostring(document, encoding="utf-8", xml_declaration=True)
        if len(content) <= MOST_BYTES:
            return content
    raise NotExportable(f"{len(results.records):,} records are more than GitLab reads in one file of JUnit's XML",
                        "export the shards of the run one by one")  # fmt: skip


def _document(results: RunResults, account: Account, *, console: bool, properties: bool) -> Element:
    root = Element("testsuites", name=SUITE)
    suite = SubElement(root, "testsuite", name=SUITE)
    about = SubElement(suite, "properties")
    for name, value in _facts_of(results):
        SubElement(about, "property", name=_attribute(name), value=_attribute(value))
    counts: Counter[str] = Counter()
    seconds = 0.0
    tests = account.tests
    for test, distinction in zip(tests, distinctions([test.record for test in tests], ("npu",)), strict=True):
        record = test.record
        lasted = _seconds(record)
        place, name = _place_and_name(record.label)
        case = SubElement(suite, "testcase", classname=_attribute(place), name=_attribute(name + distinction),
                          time=f"{lasted:.3f}")  # fmt: skip
        if properties:
            inside = SubElement(case, "properties")
            for key, value in _facts(record):
                if value:
                    SubElement(inside, "property", name=_attribute(key), value=_attribute(value))
        counts[_tell(case, test)] += 1
        for attempt in test.spoilt:
            _tell_spoilt(case, attempt, last=record)
        if console and record.verdict in RED and record.console:
            lines = [cut(escape(line), _LINE) for line in record.console[-_LINES:]]
            SubElement(case, "system-out").text = "\n".join(lines)
        seconds += lasted
    beside = list(_beside(account))
    for name, problem in beside:
        case = SubElement(suite, "testcase", classname=NIGHT, name=_attribute(name), time="0.000")
        SubElement(case, "failure", type="red", message=_attribute(problem)).text = escape(problem)
    counts["failure"] += len(beside)
    for element in (root, suite):
        element.set("tests", str(len(tests) + len(beside)))
        element.set("failures", str(counts["failure"]))
        element.set("errors", str(counts["error"]))
        element.set("time", f"{seconds:.3f}")
    suite.set("skipped", str(counts["skipped"]))
    suite.set("timestamp", _attribute(results.created))
    suite.set("hostname", _attribute(", ".join(dict.fromkeys(_hosts(results)))))
    return root


def _beside(account: Account) -> Iterator[tuple[str, str]]:
    """Yield a name, and what is wrong, of what is red and no test case's own."""
    own = {test.sentence for test in account.tests}
    yield from ((sentence, sentence) for sentence in account.beside if sentence not in own)
    changed: dict[Subject, list[str]] = {}
    for change in account.failing:
        text = f"{change.word}: {change.sentence}: {change.detail}".rstrip(": ")
        changed.setdefault(change.subject, []).append(text)
    names = Names((*changed, *(test.subject for test in account.tests)))
    for subject, texts in changed.items():
        place = ", ".join(filter(None, (subject.npu, subject.memory_mode, subject.target, names.more(subject))))
        yield f"gate {subject.label} [{place}]", "\n".join(texts)


def _tell(case: Element, test: Accounted) -> str:
    """Add how a test stands. Return the element's name, "" for a verified one."""
    record, standing, failure = test.record, test.standing, test.record.failure
    if not test.red and standing is Standing.VERIFIED:
        return ""
    if test.red and not standing.red:  # as of a quarantine that is over, or a target that is not there
        element = SubElement(case, "failure", type="red", message=_attribute(test.red))
        element.text = escape(test.red)
        return "failure"
    if standing in (Standing.SKIPPED, Standing.REFUSED, Standing.COMPILED_ONLY, Standing.DEFECT, Standing.QUARANTINED):
        name, kind = "skipped", record.kind if standing in (Standing.SKIPPED, Standing.REFUSED) else None
    else:
        name, kind = "error" if record.kind in _ERRORS else "failure", record.kind
    message = failure.message if failure is not None else "compiled only, nothing was run"
    if standing in (Standing.DEFECT, Standing.QUARANTINED):
        message = f"{message} ({standing}: {test.reason})"
    element = SubElement(case, name, type=_attribute(str(kind or standing)), message=_attribute(message))
    if name != "skipped":
        element.text = escape("\n".join(_explanation(record)), keep="\t\n")
    return name


def _tell_spoilt(case: Element, record: Record, *, last: Record) -> None:
    """Add an attempt that another one has followed."""
    if record.failure is not None:
        name = "rerunFailure" if last.verdict in RED else "flakyFailure"
        kind, message = str(record.failure.kind), record.failure.message
        element = SubElement(case, name, type=_attribute(kind), message=_attribute(message))
        element.text = escape("\n".join(_explanation(record)), keep="\t\n")


def _explanation(record: Record) -> Iterator[str]:
    """Yield what is known of a failure, as the suites print it."""
    if record.failure is not None:
        yield f"{record.failure.kind}: {cut(record.failure.message, _MESSAGE)}"
        if record.failure.hint:
            yield f"hint: {cut(record.failure.hint, _MESSAGE)}"
    if record.divergence is not None:
        yield f"starts at: {cut(record.divergence.message, _MESSAGE)}"
    if record.test is not None:
        yield f"declared at: {record.test.source}"


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the properties of a test case. Those that the suites give to pytest have the same names."""
    test, artifact = record.test, record.artifact
    yield "verdict", str(record.verdict)
    if test is not None:
        yield "test", test.id
        yield from (("operator", test.operator), ("case", test.case), ("profile", test.profile))
    else:
        yield "model", record.model
    yield from (("npu", record.npu), ("memory_mode", record.memory_mode), ("target", record.target.name))
    if record.failure is not None:
        yield "kind", str(record.failure.kind)
    for metric in record.metrics:
        yield f"{metric.name} ({metric.unit}, {metric.provenance})", exact(metric.value)
    if artifact is not None:
        yield "question", artifact.question
        yield "pte_sha256", artifact.sha256
        for delegate in artifact.delegates:
            yield f"stream_sha256 of instruction {delegate.instruction}", delegate.stream_sha256
    if test is not None:
        yield from ((("defect", test.defect),) if test.defect else ())
        yield "source", test.source


def _facts_of(results: RunResults) -> Iterator[tuple[str, str]]:
    """Yield the properties of the suite."""
    yield "run", results.name
    for manifest in results.manifests[:1]:
        yield "commit", str(manifest.get("commit") or "")
        versions = manifest.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            yield f"version of {name}", str(version)


def _hosts(results: RunResults) -> Iterator[str]:
    for manifest in results.manifests:
        machine = manifest.get("machine")
        if isinstance(machine, dict) and machine.get("host"):
            yield str(machine["host"])


def _place_and_name(label: str) -> tuple[str, str]:
    """Return class and name as pytest makes them: "suites.ops.test_a" and "add" of "suites/ops/test_a.py::add"."""
    address, bracket, parameters = label.partition("[")
    file, *names = address.split("::")
    if not names:  # a model: net.py:function, package.module:function, net.pte
        file, _, name = label.rpartition(":")
        return (_dotted_name(file), name) if file and name else ("model", label)
    return ".".join([_dotted_name(file), *names[:-1]]), names[-1] + bracket + parameters


def _dotted_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").strip(".") or "tests"


def _seconds(record: Record) -> float:
    """Return the wall time of a record, 0 where it has none."""
    seconds = (metric.value for name in _SECONDS if (metric := record.metric(name)) is not None)
    return next((value for value in seconds if value >= 0), 0.0)


def _attribute(text: str) -> str:
    """Return a text without what XML lacks, on one line: readers make blanks of line ends in attributes."""
    return one_line(cut(text, _MESSAGE))


EXPORTER = RunExporter("junit", ".xml", "JUnit's XML, a test case for each record: GitLab, Jenkins, GitHub", write)
