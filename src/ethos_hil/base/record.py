"""One run as data: the JSON that `ethos-hil run --json` writes and that the store keeps.

The layout is stable and versioned (`schema_version`); docs/formats.md describes it. A reader ignores fields it does not
know, so that fields can be added.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.dataclasses import asdict, dataclass, field, replace
from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.options import DEFAULT_TARGET
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Failure, FailureKind, Verdict

if TYPE_CHECKING:
    import cattrs

SCHEMA_VERSION = 2
"""Since 2 a record has the question that it answers. Records of schema 1 are read as before."""
_READ = (1, SCHEMA_VERSION)
_ALWAYS = ("failure", "outputs", "metrics", "ops", "artifact", "versions")
"""What every record has in JSON, though the fields have defaults."""
_OF_PROFILE = ("clock_hz", "macs_per_cycle", "timeline_from", "costs", "cpu", "timeline", "buffers", "edges")
"""What every profile has."""


@dataclass(frozen=True)
class Decision:
    """A verdict and its failure, as `ethos_hil.base.judge.decide` chooses them.

    `failure` is set when the verdict is failed; when it is skipped, `failure` names what the target lacks; when it is
    unverified, why nothing says what is right.
    """

    verdict: Verdict
    failure: Failure | None = None

    @property
    def kind(self) -> FailureKind | None:
        """The kind of the failure, if there is one."""
        return None if self.failure is None else self.failure.kind

    @property
    def why(self) -> str:
        """The failure in one line, "mismatch: 3 of 4 elements differ"; the verdict where there is none."""
        failure = self.failure
        return str(self.verdict) if failure is None else f"{failure.kind}: {one_line(failure.message)}"


@dataclass(frozen=True)
class TargetInfo:
    """Where it ran. `kind` is virtual, fvp or board; host for tests of the reference model itself.

    Attributes:
        rules: of the strict virtual board, by name: those that the run was held to.
    """

    name: str
    kind: str
    soc: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """One output tensor, compared with its reference over all executions.

    Attributes:
        name: "output 0", or the output's name in the model; or "delegate call 1 output 0", which is an output of the
            delegate called by the method's instruction 1.
        shape, dtype: shape and dtype of the tensor in one execution.
        reference: what says which values are right: the program that computed them, or the user's file; "" where
            nothing does.
        compared: elements compared, over all executions.
        mismatches: elements that differ, over all executions.
        max_abs_error: largest difference, 0 when equal; inf where a value is NaN or inf on one side only.
        first_mismatch: index of the first mismatch, or None.
        tolerance: the largest difference allowed for any of its elements; 0 where they must be equal.
        real: the least and the greatest real number that its integers stand for, over all executions; None where the
            program does not say it. What is expected may be in them, and differences then are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    reference: str
    compared: int
    mismatches: int
    max_abs_error: float
    first_mismatch: str | None = None
    tolerance: float = 0.0
    real: tuple[float, float] | None = None


@dataclass(frozen=True)
class Accuracy:
    """The distance between an output of a quantised program and the float model's, for the example inputs. It is not a
    verdict.

    Attributes:
        name: name of the output, as in `Output`.
        reference: what computed the float answer: "PyTorch, float64", or float32 where some operator lacks float64.
        sqnr_db: signal to quantisation noise, 10 log10 of the ratio of their energies: inf when they are equal, -inf
            when there is no signal or an infinite error; None when both are zero, and of integers and truth values.
        cosine: cosine of the angle between both, taken as vectors; None when one is zero, and as above.
        max_abs_error: the largest difference between two elements.
        index: index of this difference.
        expected, found: the two values there.
        agreeing: of integers and truth values, such as indices: how many equal the float model's; None of floats.
        elements: how many there are; 0 in records that do not have it.
    """

    name: str
    reference: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float
    index: tuple[int, ...]
    expected: float
    found: float
    agreeing: int | None = None
    elements: int = 0


FAR_DB = 15.0
"""An output whose SQNR is below this has little to do with the float model's: an error of more than a sixth."""


@dataclass(frozen=True)
class AccuracyLoss:
    """Why an answer that is computed as it was compiled is of little use: it is far from the float model's.

    Attributes:
        outputs: what shows it of outputs, "output 0: SQNR 4.9 dB".
        inputs: what shows it of inputs: many of their elements are beyond the range that they are quantised for.
        aten, module, source: the layer where it is lost, named as in `Op`; "" where none was found or looked for.
        sqnr_db: SQNR of that layer's output in PyTorch, with all layers before it quantised; None without a layer.
        remedy: the first thing to try, with what it gains where PyTorch has computed it; "" where nothing is known.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    aten: str = ""
    module: str = ""
    source: str = ""
    sqnr_db: float | None = None
    remedy: str = ""

    @property
    def text(self) -> str:
        """All of it but the remedy, in a line."""
        signs = "; ".join((*self.outputs, *self.inputs))
        if not self.aten:
            return signs
        where = f"{f' in {self.module}' if self.module else ''}{f' at {self.source}' if self.source else ''}"
        return f"{signs}; lost in {self.aten}{where} ({self.sqnr_db:.1f} dB behind it)"


@dataclass(frozen=True)
class Metric:
    """A number with its unit and provenance (measured, fvp, modelled, vela, instructions; `host` for wall time).

    `samples` are its values in each execution, in order, where there are several.
    """

    name: str
    value: float
    unit: str
    provenance: str
    samples: tuple[float, ...] = ()


JOB = "job"
"""Id of the row with what a job of the NPU costs apart from its operations."""


@dataclass(frozen=True)
class Op:
    """One NPU operation of the compiled program, mapped to the model's source.

    Attributes:
        id: stable within the artifact, e.g. "npu00003".
        npu_op, tosa_op, aten_ops: its names on each level.
        module: path of the nn.Module in the user's model, "" for the model itself.
        source: "file.py:12", the line of the user's forward.
        cycles: NPU cycles of one execution, or None where the target reports none.
        provenance: provenance of the cycles.
        sources: all lines whose operators are fused into it, in order; `source` is one of them.
        instruction: the method's instruction that calls its delegate; None where that is not known.
        method: how a profile found its cycles, "shares" or "prefix" (docs/profiles.md); "" in other runs.
        spread: how far its cycles are apart over several executions.
        merged_with: id of the row that has its cycles too, because no count tells the two apart; then `cycles` is None.
        events: PMU event counts by name, without those that are not known.
        samples: its cycles in each execution of a profile, in order; empty for a row that is merged with another.
    """

    id: str
    npu_op: str
    tosa_op: str
    aten_ops: tuple[str, ...]
    module: str
    source: str
    cycles: int | None
    provenance: str
    sources: tuple[str, ...] = ()
    instruction: int | None = None
    method: str = ""
    spread: int = 0
    merged_with: str = ""
    events: Mapping[str, int] = field(default_factory=dict, hash=False)
    samples: tuple[int, ...] = ()


@dataclass(frozen=True)
class Divergence:
    """The place where a wrong answer starts. A field that does not apply is None, "" or empty.

    Attributes:
        place: "npu-op" (the NPU operation in this record), "delegate" (a delegate call, and nothing nearer), "cpu"
            (operators outside delegates), or "unknown" (the search failed; `message` says why).
        found_by: how an operation was found: "replay" (each operation's result on the functional NPU was compared) or
            "recompilation" (the delegate was compiled again with its intermediate tensors as outputs).
        message: all of this in words.
        instruction: the method's instruction that calls the delegate.
        op: the operation's id in `Record.ops`; npu_op, tosa_op, aten_ops, module and source are as there.
        tensor: the tensor's name in the delegate's TOSA program, with its shape and TOSA type.
        index: index of the first element that differs, in that shape, with the value `expected` by the reference and
            the value `found`.
        mismatches: number of elements of the tensor that differ.
        reproduced: whether the functional NPU, with the reference's inputs, gives exactly the target's answer.
    """

    place: str
    message: str
    found_by: str = ""
    instruction: int | None = None
    op: str = ""
    npu_op: str = ""
    tosa_op: str = ""
    aten_ops: tuple[str, ...] = ()
    module: str = ""
    source: str = ""
    tensor: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    index: tuple[int, ...] | None = None
    expected: int | None = None
    found: int | None = None
    mismatches: int | None = None
    reproduced: bool | None = None


@dataclass(frozen=True)
class Check:
    """One need of a program, compared with what the target has, before anything boots.

    Attributes:
        name: name of the check, e.g. "scratch".
        needed, available: the two sides as text.
        status: "ok", "note" (worth knowing), or "fail".
        fix: the flag or setting that may help, or None.
    """

    name: str
    needed: str
    available: str
    status: str
    fix: str | None = None


@dataclass(frozen=True)
class RunnerInfo:
    """A user's runner that ran in place of the firmware."""

    path: str
    sha256: str


@dataclass(frozen=True)
class SuiteTest:
    """The suite's test that a record belongs to.

    Attributes:
        id: pytest's id: "suites/ops/test_elementwise.py::test_add_same_U55_BI".
        operator, case, profile: "add", "same", "U55_BI".
        source: where the case is declared, "suites/ops/test_elementwise.py:13".
        defect: the issue upstream, or the place in this repository, of the defect that it fails for, as it declares;
            "" where it declares none or fails otherwise.
    """

    id: str
    operator: str
    case: str
    profile: str
    source: str
    defect: str = ""


@dataclass(frozen=True)
class BenchInfo:
    """The point of a benchmark's grid that a record belongs to. NPU, memory mode, system and target are the record's.

    Attributes:
        grid: the grid's name: "default", or that of the user's file.
        case: the case's name, unique in its grid.
        group: what it is a case of, "conv3x3": points of a group are compared with one another.
        tags: of the case: "short" or "long", and the user's own.
        source: where the case is declared, "grid.toml:12".
        warm_up: executions at the start that do not count; only in records of earlier versions.
    """

    grid: str
    case: str
    group: str
    tags: tuple[str, ...] = ()
    source: str = ""
    warm_up: int = 0


@dataclass(frozen=True)
class RunInfo:
    """The run that a record belongs to.

    Attributes:
        name: of its run folder.
        commit: of the git work tree that it was started in, "" where there is none.
        dirty: whether that tree had changes.
        shard: which part of the tests this process's machine ran, "2/4"; "" for all.
        part: which part of a nightly's plan asked for it (docs/nightly.md); "" outside a nightly.
        attempt: which attempt it is: 2 where the first one could not be made, and was repeated.
        job: the CI's job, by its number or address; "" outside a CI.
        planned: digest of the planned question that it answers, which a campaign that is resumed looks for; "" where
            pytest ran it, and outside a campaign.
    """

    name: str
    commit: str = ""
    dirty: bool = False
    shard: str = ""
    part: str = ""
    attempt: int = 1
    job: str = ""
    planned: str = ""


@dataclass(frozen=True)
class BoardRun:
    """What a record has of a board, apart from its name.

    Attributes:
        probe: serial number of its debug probe; "" where its file states none.
        server: what speaks for the probe: "pyocd", "openocd", "jlink", "probe-rs", "running" or "none".
        link: URL of its serial line.
        baud: bits per second of the line while the program ran.
        cpu_hz: clock of its processor, as the firmware reports it.
        npu_hz: clock of its NPU, as its file states it; 0 where that is not known.
        loaded: whether the firmware was loaded for this run; otherwise it was there already.
        load_seconds: wall time of that, with reset and reading back; 0.0 where it was not loaded.
        upload_bytes: of the package.
        upload_seconds: wall time until all of it was there.
        sent_again: bytes of the package that were sent more than once.
        damaged: frames that arrived damaged, at either end.
        lost: bytes that the board's UART says it lost.
        untried: values of the board's file that no one is known to have tried on a real board.
        simulated: whether it is a program, whose cycles are modelled.
    """

    probe: str = ""
    server: str = "none"
    link: str = ""
    baud: int = 0
    cpu_hz: int = 0
    npu_hz: int = 0
    loaded: bool = False
    load_seconds: float = 0.0
    upload_bytes: int = 0
    upload_seconds: float = 0.0
    sent_again: int = 0
    damaged: int = 0
    lost: int = 0
    untried: int = 0
    simulated: bool = False


_NO_TARGET = ("tosa_reference_model", "none", "")
"""What stands in a target's place where a test has none, or failed before it had one."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """All that the record of a run says, but for the verdict. Facts are added until `ethos_hil.base.judge.judge` makes
    the record of them.

    `notes` are sentences for the user even when all is well, such as a tool's defect with a workaround. `divergence` is
    set when the failure is a mismatch. `memory_mode` is Vela's name of the mode that the program was compiled for, ""
    where unknown, `system_config` that of the clock and the memories. `preflight` has its rows when one of them is the
    failure. `method` is the program's method that ran. `text` is what the target wrote, if the model writes text.
    `profile` is what `ethos-hil profile` adds. `created` is when the record was made (UTC, ISO 8601). `clock_hz` is the
    NPU's clock in the system configuration, 0 where that is not known. `firmware_sha256` is the digest of the firmware,
    `timing_model` the id of the model that modelled cycles come from, `inputs_sha256` the digest of all input sets;
    "" where there is none. `timing_adapters` says what is known of those between the NPU and its memories: "reset" if
    no one sets them, "" where there are none or a user's runner may. `run` is the run folder's: it writes it beside the
    record. `bench` is set where a benchmark made it. `question` is what was
    asked, whole; None in records of schema 1. `clock` is set where the user states one to make times with, or a
    board's file does. `board` is set where it ran on a board. `loss` is set where the answer is far from the float
    model's.
    """

    model: str
    npu: str
    target: TargetInfo
    divergence: Divergence | None = None
    outputs: tuple[Output, ...] = ()
    accuracy: tuple[Accuracy, ...] = ()
    metrics: tuple[Metric, ...] = ()
    ops: tuple[Op, ...] = ()
    artifact: ArtifactInfo | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    executions: int = 0
    notes: tuple[str, ...] = ()
    console: tuple[str, ...] = ()
    memory_mode: str = ""
    system_config: str = ""
    runner: RunnerInfo | None = None
    preflight: tuple[Check, ...] = ()
    test: SuiteTest | None = None
    method: str = "forward"
    text: str = ""
    profile: InferenceProfile | None = None
    created: str = ""
    clock_hz: float = 0.0
    firmware_sha256: str = ""
    timing_model: str = ""
    inputs_sha256: str = ""
    timing_adapters: str = ""
    run: RunInfo | None = None
    bench: BenchInfo | None = None
    clock: StatedClock | None = None
    board: BoardRun | None = None
    question: Question | None = None
    loss: AccuracyLoss | None = None

    @property
    def label(self) -> str:
        """What it is about: the suite's test, by pytest's id, or the model."""
        return self.test.id if self.test is not None else self.model

    @property
    def name(self) -> str:
        """What the part of a plan that asked for it calls it: the label, or the case of a benchmark."""
        return self.bench.case if self.bench is not None else self.label

    @property
    def far(self) -> bool:
        """Whether the answer is known to be far from the float model's, whatever the verdict."""
        return self.loss is not None or any(
            accuracy.sqnr_db is not None and accuracy.sqnr_db < FAR_DB for accuracy in self.accuracy
        )

    @property
    def within(self) -> RunInfo:
        """The run that it belongs to, or one without a name."""
        return self.run or RunInfo("")

    def metric(self, name: str) -> Metric | None:
        """Return the metric called `name`, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)


@dataclass(frozen=True, kw_only=True)
class Record(RunFacts, Decision):
    """A finished run, whatever its verdict. `ethos_hil.base.judge.judge` makes it, and nothing amends it afterwards."""

    def to_json(self) -> dict[str, Any]:
        """Return the record ready for JSON. JSON lacks NaN and infinities, so they become strings."""
        data: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **asdict(replace(self, question=None))}
        data["question"] = None if self.question is None else self.question.to_json()
        for item in (*data["outputs"], *data["accuracy"], *([data["loss"]] if self.loss is not None else ())):
            item.update({name: json_number(value) for name, value in item.items()})
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Return the record of `to_json`'s output.

        Raises:
            ValueError: the schema version differs, or a required field is missing or has the wrong type.
        """
        version = data.get("schema_version")
        if version not in _READ:
            raise ValueError(f"record has schema version {version!r}; this program reads version {SCHEMA_VERSION}")
        try:
            from ethos_hil.base.typed_json import from_json  # late: only readers need cattrs

            return from_json(cls, data, _ALWAYS, _converter())
        except ValueError as error:
            raise ValueError(f"record is not as schema version {SCHEMA_VERSION} has it: {error}") from error

    @property
    def asked(self) -> Question:
        """The question. A record of schema 1 has only some facts of it: a question with these."""
        if self.question is not None:
            return self.question if self.test is None else self.question.but(model=self.test.id)
        program = self.artifact
        known = {word.partition("=")[0]: word.partition("=")[2] for word in program.vela_flags} if program else {}
        return Question(
            self.label,
            npu=self.npu,
            memory_mode=self.memory_mode or None if self.npu else None,
            method=None if self.method == "forward" else self.method,
            target=self.target.name if self.npu and self.target.name not in _NO_TARGET else DEFAULT_TARGET,
            scheme="a16w8" if program is not None and program.scheme == "a16w8" else "a8w8",
            optimise=known.get("--optimise"),
        )

    def dumps(self, run: RunInfo | None = None) -> str:
        """Return the record as one line of JSON, with the run that keeps it."""
        document = self.to_json() | ({} if run is None else {"run": asdict(run)})
        return json.dumps(document, separators=(",", ":"), allow_nan=False)


def json_number(value: Any) -> Any:
    """Return a value as JSON has it: "inf", "-inf" or "nan" for a number that JSON lacks."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@functools.cache
def _converter() -> cattrs.Converter:
    """Return the converter of records from JSON, with the checks that the types of their fields do not make."""
    from cattrs.gen import make_dict_structure_fn

    from ethos_hil.base.typed_json import new_converter, require

    converter = new_converter()
    for kind, names in ((OpCost, ("traffic",)), (InferenceProfile, _OF_PROFILE)):
        made: Any = make_dict_structure_fn(kind, converter)
        converter.register_structure_hook(kind, lambda data, _, made=made, names=names: made(require(data, names)))
    failure = make_dict_structure_fn(Failure, converter)
    metric = make_dict_structure_fn(Metric, converter)
    clock = make_dict_structure_fn(StatedClock, converter)
    converter.register_structure_hook(Failure, lambda data, _: failure(_with_known_kind(data)))
    converter.register_structure_hook(Metric, lambda data, _: _check_metric(metric(data)))
    converter.register_structure_hook(StatedClock, lambda data, _: _check_clock(clock(data)))
    converter.register_structure_hook(Question, lambda data, _: Question.from_json(data))
    return converter


def _with_known_kind(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a kind that this version does not know before the message, so that nothing is lost."""
    kind = data["kind"]
    if not isinstance(kind, str) or kind in set(FailureKind):
        return data
    return {**data, "kind": FailureKind.OTHER, "message": f"{kind}: {data['message']}"}


def _check_metric(metric: Metric) -> Metric:
    for value in (metric.value, *metric.samples):
        if not abs(value) <= sys.float_info.max:  # nor NaN
            raise TypeError(f"{value!r} is not a number of a metric")
    return metric


def _check_clock(clock: StatedClock) -> StatedClock:
    if not 0 < clock.hz < math.inf:
        raise TypeError(f"{clock.hz!r} is not a clock")
    return clock
