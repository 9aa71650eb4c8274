"""A record as text for people: verdict, outputs, totals, and a row per NPU operation; and a table of records, a row
each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.clock import frequency
from ethos_hil.base.console import add_row, plain
from ethos_hil.base.plain_text import duration, escape, per_second, share
from ethos_hil.base.program_info import PRODUCTS, ArtifactInfo, CpuOp
from ethos_hil.base.record import Accuracy, BoardRun, Check, Metric, Op, Output, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.latency import DERIVED, Latency, latency_of
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.table import INTEGER, Fit, ResultTable, TableColumn

_Numbered = tuple[StoredRecord, int]
"""A record with its number in its run, from 1."""


def _cycles(record: Record) -> tuple[int | None, str]:
    cycles = record.metric("npu_cycles")
    return (None, "") if cycles is None else (int(cycles.value), cycles.provenance)


COLUMNS: Sequence[TableColumn[_Numbered]] = (
    TableColumn("run", lambda row: row[0].run),
    TableColumn("record", lambda row: row[1], INTEGER, Fit.NUMBER),
    TableColumn("created", lambda row: row[0].created),
    TableColumn("model", lambda row: row[0].record.model),
    TableColumn("method", lambda row: row[0].record.method),
    TableColumn("case", lambda row: row[0].record.bench.case if row[0].record.bench is not None else ""),
    TableColumn("profile", lambda row: row[0].record.test.profile if row[0].record.test is not None else ""),
    TableColumn("npu", lambda row: row[0].record.npu),
    TableColumn("memory_mode", lambda row: row[0].record.memory_mode),
    TableColumn("system_config", lambda row: row[0].record.system_config),
    TableColumn("scheme", lambda row: row[0].record.artifact.scheme if row[0].record.artifact is not None else ""),
    TableColumn("target", lambda row: row[0].record.target.name),
    TableColumn("soc", lambda row: row[0].record.target.soc),
    TableColumn("part", lambda row: row[0].record.within.part),
    TableColumn("attempt", lambda row: row[0].record.within.attempt, INTEGER, Fit.NUMBER),
    TableColumn("verdict", lambda row: row[0].record.verdict),
    TableColumn("failure", lambda row: row[0].record.kind or ""),
    TableColumn("executions", lambda row: row[0].record.executions, INTEGER, Fit.NUMBER),
    TableColumn("npu_cycles", lambda row: _cycles(row[0].record)[0], INTEGER, Fit.NUMBER),
    TableColumn("provenance", lambda row: _cycles(row[0].record)[1]),
)
_WHERE_SEVERAL = ("record", "method", "case", "profile", "system_config", "scheme", "soc", "part", "attempt")
"""Columns that tell a reader nothing where all rows have the same in them."""


def record_table(stored: Iterable[StoredRecord]) -> ResultTable[_Numbered]:
    """Return one row per record, in the given order. `record` is its number in its run, and `npu_cycles` is for one
    execution, missing where none were counted.
    """
    counted: Counter[str] = Counter()
    rows: list[_Numbered] = []
    for item in stored:
        counted[item.run] += 1
        rows.append((item, counted[item.run]))
    return ResultTable(COLUMNS, rows)


def for_people(table: ResultTable[_Numbered]) -> ResultTable[_Numbered]:
    """Return the table without the columns that have one value throughout, and with no two equal rows."""
    values = {column.name: [column.value(row) for row in table.rows] for column in table.columns}
    same = [name for name in _WHERE_SEVERAL if name == "record" or len(set(values[name])) < 2]
    left = [column for column in table.columns if column.name not in same]
    rows = list(zip(*(values[column.name] for column in left), strict=True))
    if len(set(rows)) < len(rows):
        left = [column for column in table.columns if column.name not in same[1:]]
    return ResultTable(left, table.rows)


_CYCLES = "cycles"
_HOST = "host"
_LONGEST = 6
"""How many of the host's times are told; the total is the first. `--json` has all."""


def metric_rows(record: Record) -> Iterator[tuple[str, str]]:
    """Yield name and text of the numbers of a run but those of `latency_rows`: memory in a line, and the longest of the
    host's times.
    """
    followed = [metric for metric in record.metrics if metric.name not in DERIVED]
    for metric in followed:
        if metric.unit != "bytes" and metric.provenance != _HOST:
            yield metric.name.replace("_", " "), f"{metric.value:,.10g} {metric.unit} ({metric.provenance})"
    memory = [metric for metric in followed if metric.unit == "bytes" and metric.value]
    times = sorted((metric for metric in followed if metric.provenance == _HOST), key=lambda metric: -metric.value)
    for name, metrics, form in (("RAM", memory, ",.0f"), (_HOST, times[:_LONGEST], ".1f")):
        told = (f"{_short(metric)} {metric.value:{form}}" for metric in metrics)
        if metrics:
            yield name, f"{', '.join(told)} {metrics[0].unit} ({metrics[0].provenance})"
    if record.artifact is not None and record.artifact.pte_bytes:
        yield "flash", f"the program {record.artifact.pte_bytes:,} bytes"


def _short(metric: Metric) -> str:
    return metric.name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")


def latency_rows(record: Record) -> Iterator[tuple[str, str]]:
    """Yield name and text of each line; none where the target counts no cycles or the clock is not known."""
    latency = latency_of(record)
    if latency is not None and (latency.npu or latency.cpu):
        yield "latency", f"{_times(latency)}{_cpus_part(record.artifact)}"
        yield "clock", f"{_clock(latency)}{_memories(latency, record)}{_why_untimed(latency)}"


def _times(latency: Latency) -> str:
    rate = "" if latency.per_second is None else f"; {per_second(latency.per_second)} inferences per second"
    if latency.cpu is None or latency.total is None:
        return f"NPU {duration(latency.npu)} ({latency.provenance}){rate} of the NPU alone"
    provenance = ", ".join(dict.fromkeys((latency.provenance, latency.cpu_provenance)))
    times = f"NPU {duration(latency.npu)}, CPU {duration(latency.cpu)}, total {duration(latency.total)}"
    return f"{times} ({provenance}){rate}"


def _cpus_part(artifact: ArtifactInfo | None) -> str:
    """Return what the CPU does of the work, for a reader who takes the NPU's time for all of it."""
    if artifact is None:
        return ""
    if artifact.npu_share is None:
        return "; what part of the work that is, is not known" if artifact.cpu_ops else ""
    return f"; {artifact.npu_share.of_cpu}" if artifact.npu_share.cpu else ""


def _clock(latency: Latency) -> str:
    cpu = f", CPU {frequency(latency.clock.cpu_hz)}" if latency.cpu is not None else ""
    return f"NPU {frequency(latency.clock.hz)}{cpu}: {latency.clock.of}"


def _memories(latency: Latency, record: Record) -> str:
    """Return how fast the memories are at a clock that is not the system configuration's: cycles do not follow it."""
    other = record.clock_hz and latency.clock.hz != record.clock_hz
    return f", with memories in the proportion of {record.system_config}" if other else ""


def _why_untimed(latency: Latency) -> str:
    """Return why the CPU has no time, if it does something."""
    if latency.cpu is not None or not latency.counted:
        return ""
    if latency.unit == _CYCLES:
        return f"; the CPU's {latency.counted:,} cycles are not time without its clock (--clock NPU/CPU)"
    return f"; the CPU's {latency.counted:,} {latency.unit} are not time"


_COLOURS = {"verified": "green", "failed": "red"}
_CHECK_COLOURS = {"ok": "green", "note": "yellow", "fail": "red"}
_PLACES = 3
"""How many places of one operator are named."""


def compared_text(output: Output) -> str:
    """Return one line that compares an output with its reference."""
    if not output.reference:
        return f"{output.dtype}{list(output.shape)}: not compared"
    good = output.compared - output.mismatches
    relation = f"within {output.tolerance:.3g} of" if output.tolerance else "equal to"
    difference = f", largest difference {output.max_abs_error:.3g}" if output.mismatches or output.tolerance else ""
    elements = f"{good:,} of {output.compared:,} elements {relation} {output.reference}"
    return f"{output.dtype}{list(output.shape)}: {elements}{difference}"


_FAR = ", but far from the float model"


def head(record: Record) -> Text:
    """Return the first line about a run: its verdict, the model and the place."""
    target = record.target
    place = target.soc if target.soc == target.name else f"{target.name} {target.soc}"
    kind = "" if target.kind == target.name else f"{target.kind} "
    return Text.assemble(
        (record.verdict, f"bold {_COLOURS.get(record.verdict, 'yellow')}"),
        (_FAR if record.loss is not None and record.verdict == Verdict.VERIFIED else "", "bold red"),
        plain(f"  {record.model} for {record.npu} on {kind}{place}"),
    )


def loss_rows(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what makes a right answer one of little use, and the first thing to try; nothing for another."""
    if record.loss is not None:
        yield "loss", record.loss.text
        if record.loss.remedy:
            yield "try first", record.loss.remedy


def _board(board: BoardRun) -> str:
    """Return how the program came onto a board."""
    firmware = f"firmware loaded in {board.load_seconds:.2f} s" if board.loaded else "firmware was there"
    parts = [f"{board.link} at {board.baud:,} baud", firmware]
    if board.upload_seconds > 0:
        rate = board.upload_bytes / board.upload_seconds / 1000
        parts.append(f"{board.upload_bytes:,} bytes uploaded at {rate:,.0f} kB/s")
    if board.cpu_hz:
        parts.append(f"processor at {board.cpu_hz / 1e6:g} MHz")
    if board.sent_again or board.damaged or board.lost:
        parts.append(f"{board.sent_again:,} bytes sent again")
    if board.untried and not board.simulated:
        parts.append(f"{board.untried} values of its file are untried on a real board")
    return "; ".join(parts)


def summary(record: Record) -> RenderableType:
    """Return the full text about one run."""
    facts = Table.grid(padding=(0, 2))
    if "fvp" in record.versions:
        add_row(facts, "fvp", record.versions["fvp"])
    if record.board is not None:
        add_row(facts, "board", _board(record.board))
    if record.runner is not None:
        add_row(facts, "runner", f"{record.runner.path} (SHA-256 {record.runner.sha256[:16]}...)")
    if record.failure is not None:
        add_row(facts, "reason" if record.verdict == Verdict.UNVERIFIED else "failure", record.why)
        if record.failure.hint:
            add_row(facts, "", record.failure.hint)
    for name, text in loss_rows(record):
        add_row(facts, name, text)
    if record.divergence is not None:
        add_row(facts, "divergence", record.divergence.message)
    for note in record.notes:
        add_row(facts, "note", note)
    scales = {} if record.artifact is None else {each.name: each for each in record.artifact.quantised_io}
    for name, tensor in scales.items():
        if name.startswith("input"):
            add_row(facts, name, f"{tensor.tensor} stands for {tensor.text}")
    for output in record.outputs:
        add_row(facts, output.name, compared_text(output))
        if output.real is not None and output.name in scales:
            least, greatest = output.real
            text = f"{scales[output.name].text}, from {least:.6g} to {greatest:.6g}"
            add_row(facts, f"{output.name} in real numbers", text)
    for accuracy in record.accuracy:
        add_row(facts, f"{accuracy.name} in float", accuracy_text(accuracy))
    for name, text in (*metric_rows(record), *latency_rows(record)):
        add_row(facts, name, text)
    if record.memory_mode:
        add_row(facts, "memory mode", record.memory_mode)
    if record.system_config:
        add_row(facts, "system config", record.system_config)
    if record.artifact is not None:
        add_row(facts, "operators", placement_text(record.artifact))
    parts: list[RenderableType] = [head(record), facts]
    if record.text:
        parts += ["", Text(escape(record.text, keep="\t\n"))]
    if record.ops:
        parts += ["", ops_table(record.ops).to_text()]
    if record.artifact is not None and any(call.kind == "operator" for call in record.artifact.cpu_calls):
        parts += ["", cpu_table(record.artifact.cpu_calls)]
    return Group(*parts)


def placement_text(artifact: ArtifactInfo) -> str:
    """Return how many operators are on the NPU and how many on the CPU."""
    kinds = [call.kind for call in artifact.cpu_calls]
    npu = "some" if artifact.delegated is None else f"{artifact.delegated:,}"
    more = [f"{kinds.count('conversion'):,} conversions"] if "conversion" in kinds else []
    more += [f"{kinds.count('state'):,} writes of state"] if "state" in kinds else []
    beside = f", with {' and '.join(more)}" if more else ""
    work = artifact.npu_share
    part = f"; {work.text}" if work is not None and work.unit == PRODUCTS else ""
    return f"{npu} on the NPU, {kinds.count('operator'):,} on the CPU{beside}{part}"


def accuracy_text(accuracy: Accuracy) -> str:
    """Return one line about the quantisation error; of integers, how many are right."""
    worst = f"worst element {accuracy.found:.6g} for {accuracy.expected:.6g} at {list(accuracy.index)}"
    if accuracy.agreeing is not None:
        others = f", {worst}" if accuracy.agreeing < accuracy.elements else ""
        return f"{accuracy.agreeing:,} of {accuracy.elements:,} agree with {accuracy.reference}{others}"
    sqnr = "no signal" if accuracy.sqnr_db is None else f"SQNR {accuracy.sqnr_db:.1f} dB"
    cosine = "" if accuracy.cosine is None else f", cosine {accuracy.cosine:.6f}"
    return f"{sqnr}{cosine}, {worst} ({accuracy.reference})"


def checks_table(checks: tuple[Check, ...]) -> Table:
    """Return a table with one row per check of a preflight."""
    columns: tuple[TableColumn[Check], ...] = (
        TableColumn("check", lambda check: check.name),
        TableColumn("needed", lambda check: check.needed),
        TableColumn("available", lambda check: check.available),
        TableColumn("", lambda check: check.status, show=lambda status: Text(status, _CHECK_COLOURS.get(status, ""))),
        TableColumn("what would help", lambda check: check.fix or ""),
    )
    return ResultTable(columns, checks).to_text()


def _lines(sources: tuple[str, ...]) -> str:
    """Return source lines as text, "net.py:12, 14": adjacent lines of one file name the file once."""
    words: list[str] = []
    before = ""
    for source in sources:
        file, _, line = source.rpartition(":")
        words.append(line if words and file == before else source)
        before = file
    return ", ".join(words)


def ops_table(ops: tuple[Op, ...]) -> ResultTable[Op]:
    """Return a table with one row per NPU operation, and their sum."""
    counted = [op.cycles for op in ops if op.cycles is not None]
    total = sum(counted)
    provenance = escape(", ".join(dict.fromkeys(op.provenance for op in ops)))
    totals = ("total", f"{total:,}", "100.0%") if counted else ("", "", "")
    columns: tuple[TableColumn[Op], ...] = (
        TableColumn("NPU op", lambda op: op.npu_op, total=totals[0]),
        TableColumn("TOSA op", lambda op: op.tosa_op),
        TableColumn("aten ops", lambda op: ", ".join(name.removeprefix("aten.") for name in op.aten_ops)),
        TableColumn("module", lambda op: op.module),
        TableColumn("source", lambda op: _lines(op.sources or (op.source,))),
        TableColumn(f"cycles ({provenance})", lambda op: op.cycles, fit=Fit.TITLED_NUMBER, total=totals[1]),
        TableColumn("share", lambda op: "" if op.cycles is None else share(op.cycles, total), fit=Fit.TITLED_NUMBER,
                    total=totals[2]),
    )  # fmt: skip
    return ResultTable(columns, ops)


def cpu_table(calls: tuple[CpuOp, ...]) -> Table:
    """Return a table with the operators on the CPU; equal ones at one line are one row with their number."""
    alike: dict[tuple[str, ...], list[CpuOp]] = {}
    for call in calls:
        if call.kind == "operator":
            alike.setdefault((call.operator, call.reason, call.remedy), []).append(call)
    columns: tuple[TableColumn[list[CpuOp]], ...] = (
        TableColumn("CPU op", lambda group: group[0].operator),
        TableColumn("module", lambda group: _several([call.module for call in group])),
        TableColumn("source", lambda group: _several([call.source for call in group])),
        TableColumn("calls", len, fit=Fit.NUMBER),
        TableColumn("why it is not on the NPU", lambda group: group[0].reason),
        TableColumn("what would help", lambda group: group[0].remedy),
    )
    return ResultTable(columns, list(alike.values())).to_text()


def _several(places: list[str]) -> str:
    known = [place for place in dict.fromkeys(places) if place]
    rest = len(known) - _PLACES
    return _lines(tuple(known[:_PLACES])) + (f" and {rest:,} more" if rest > 0 else "")
