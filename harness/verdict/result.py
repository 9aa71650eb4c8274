"""The result of a run in the API: the verdict, outputs, cycles, and a view for terminals and notebooks."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.files import write_whole
from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Failure, Verdict
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.array_archive import packed_sets
from ethos_hil.lowering.formats.pte_model import archive_names

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


_COLOURS = {Verdict.VERIFIED: "#1a7f37", Verdict.FAILED: "#cf222e"}
_OTHER_COLOUR = "#9a6700"


class NotVerified(EthosHilError):
    """A run that has to be verified is not; `result` is the run's result."""

    def __init__(self, result: Result) -> None:
        failure = result.failure
        if failure is None:
            super().__init__(f"the run is {result.verdict}")
        else:
            super().__init__(failure.message, hint=failure.hint, kind=failure.kind, console=result.record.console)
        self.result = result


@dataclass(frozen=True)
class Result:
    """A finished run.

    A notebook and rich show it as the table that `ethos-hil run` prints.
    """

    report: Report

    @property
    def record(self) -> Record:
        """The full record of the run; docs/formats.md describes it."""
        return self.report.record

    @property
    def artifact(self) -> Artifact:
        """The lowered program: the .pte, TOSA, Vela blobs, and the map from NPU operations to source lines."""
        return self.report.artifact

    @property
    def verdict(self) -> Verdict:
        """How the run ended. Only `Verdict.VERIFIED` means that every output equals its reference."""
        return self.record.verdict

    @property
    def verified(self) -> bool:
        """Whether every output was compared with its reference and equals it."""
        return self.verdict is Verdict.VERIFIED

    @property
    def failure(self) -> Failure | None:
        """What went wrong, or why nothing says what is right. None for a verified run."""
        return self.record.failure

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """The device's outputs for the first input set, in the shapes (NCHW) and dtypes of the program's outputs."""
        return self.outputs_of(0)

    def outputs_of(self, input_set: int, repeat: int = 0) -> tuple[np.ndarray, ...]:
        """Return the device's outputs for one input set.

        Args:
            input_set: its number, from 0.
            repeat: number of the execution, from 0.

        Raises:
            IndexError: there was no such execution.
        """
        for run in self.report.outcome.runs:
            if (run.input_set, run.repeat) == (input_set, repeat):
                return run.outputs
        raise IndexError(
            f"input set {input_set}, repeat {repeat}: {len(self.report.outcome.runs)} executions were made"
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs' names: a dictionary's keys, joined by dots ("head.boxes"), else numbers ("output 0")."""
        return self.artifact.outputs

    def real_outputs(self, input_set: int = 0, repeat: int = 0) -> tuple[np.ndarray, ...]:
        """Return the device's outputs for one input set in the real numbers that their integers stand for, where a
        program from elsewhere says it, in float64; others as they are. Arguments and errors are those of `outputs_of`.
        """
        scales, outputs = self.report.artifact.io_scales[1], self.outputs_of(input_set, repeat)
        return tuple(
            array if scale is None else scale.real(array) for array, scale in zip(outputs, scales, strict=True)
        )

    def named_outputs(self, input_set: int = 0, repeat: int = 0) -> dict[str, np.ndarray]:
        """Return the device's outputs for one input set, by name. Arguments and errors are those of `outputs_of`."""
        return dict(zip(self.output_names, self.outputs_of(input_set, repeat), strict=True))

    def save_outputs(self, path: str | Path) -> Path:
        """Write the device's outputs as an .npz, whole or not at all: one array for each output, by name.

        "output 1" is called output_1 there. Where the program ran several times, arrays have one more leading axis, the
        executions in order.

        Raises:
            OSError: the file cannot be written.
        """
        sets = [run.outputs for run in self.report.outcome.runs]
        write_whole(Path(path), packed_sets(sets, archive_names(self.output_names)))
        return Path(path)

    @property
    def references(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """The outputs that tosa_reference_model computes, for each input set; none for a .pte that was not lowered
        here.
        """
        return tuple(reference.outputs for reference in self.report.references)

    @property
    def cycles(self) -> int | None:
        """NPU cycles of one inference, or None where the target reports none. `cycle_provenance` names their source."""
        metric = self.record.metric("npu_cycles")
        return None if metric is None else int(metric.value)

    @property
    def cycle_provenance(self) -> str | None:
        """The source of `cycles`: "modelled", "fvp" or "measured"."""
        metric = self.record.metric("npu_cycles")
        return None if metric is None else metric.provenance

    @property
    def ops(self) -> pd.DataFrame:
        """A row for each NPU operation: id, npu_op, tosa_op, aten_ops, module, source, sources, cycles, provenance."""
        import pandas as pd

        names = ("id", "npu_op", "tosa_op", "aten_ops", "module", "source", "sources", "cycles", "provenance")
        return pd.DataFrame([{name: getattr(op, name) for name in names} for op in self.record.ops], columns=names)

    def assert_verified(self) -> Result:
        """Return this result if it is verified.

        Raises:
            NotVerified: it is not verified; the error has the failure's kind, message and hint.
        """
        if not self.verified:
            raise NotVerified(self)
        return self

    def save(self, path: str | Path) -> Path:
        """Write the record as JSON, whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        path = Path(path)
        write_whole(path, json.dumps(self.record.to_json(), indent=2, allow_nan=False) + "\n")
        return path

    def __repr__(self) -> str:
        record = self.record
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles ({self.cycle_provenance})"
        why = "" if self.failure is None else f", {self.failure.kind}: {self.failure.message}"
        text = f"<Result {record.verdict}: {record.model} for {record.npu} on {record.target.name}{cycles}{why}>"
        return escape(text)

    def __rich__(self) -> RenderableType:
        from ethos_hil.results.text.record import summary

        return summary(self.record)

    def _repr_html_(self) -> str:
        from ethos_hil.results.text.record import compared_text, latency_rows, loss_rows, metric_rows, ops_table

        record = self.record
        colour = _COLOURS.get(record.verdict, _OTHER_COLOUR)
        facts = [(output.name, compared_text(output)) for output in record.outputs]
        facts += metric_rows(record)
        facts += latency_rows(record)
        if record.failure is not None:
            facts.insert(0, ("failure", f"{record.failure.kind}: {record.failure.message}"))
        if record.divergence is not None:
            facts.insert(1, ("divergence", record.divergence.message))
        facts += [("note", note) for note in record.notes]
        facts = [*loss_rows(record), *facts]
        rows = "".join(f"<tr><th>{_html(name)}</th><td>{_html(text)}</td></tr>" for name, text in facts)
        table = ops_table(record.ops).to_html() if record.ops else ""
        return (
            f"<div><p><b style='color:{colour}'>{_html(record.verdict)}</b> {_html(record.model)} for "
            f"{_html(record.npu)} on {_html(record.target.name)}</p><table>{rows}</table>{table}</div>"
        )


def _html(text: str) -> str:
    return html.escape(escape(text))
