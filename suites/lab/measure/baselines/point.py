"""One network on one NPU in one memory mode: the row of the published baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.bench.figures import PointFigures

_TRANSPOSE = "TRANSPOSE"
_ALL_IN_SRAM = "Sram_Only"
"""The memory mode in which nothing goes off chip."""


@dataclass(frozen=True)
class BaselinePoint:
    """The figures of one inference. None where they are not known.

    Attributes:
        network: the network's name.
        npu, memory_mode, system_config: what it is compiled for, by Vela's names.
        verdict: "verified" where this program was booted on the virtual board, and every output was the reference's;
            "compiled-only" where it was compiled and timed; "failed" where there is no program, or a wrong answer.
        reason: why it failed.
        clock_hz: of the NPU, in the system configuration.
        cycles: of the NPU, modelled.
        vela_cycles: the compiler's estimate.
        macs: products that are computed.
        utilisation: the share of all products that the NPU could compute in these cycles, 0 to 1.
        transposing: the share of the cycles that transpositions take, 0 to 1.
        bound_by: what takes most of the cycles.
        sram_bytes: SRAM that the program needs.
        off_chip_bytes: moved to and from DRAM or flash.
        weight_bytes: of the weights, encoded.
        operations: of the NPU.
        on_cpu: calls of operators that are left to the CPU.
        sqnr_db: signal to quantisation noise of the answer, against PyTorch in float; known of a booted point.
        fits: whether the board's SRAM has room for all that the memory mode puts there: 2 MiB on a Corstone-300, 3.9 on
            a Corstone-320. Weights that do not fit in `Sram_Only` are in DRAM or flash, and timed there.
        program: 16 digits that stand for command streams and weights.
    """

    network: str
    npu: str
    memory_mode: str
    system_config: str
    verdict: str
    reason: str = ""
    clock_hz: float = 0.0
    cycles: int | None = None
    vela_cycles: int | None = None
    macs: int | None = None
    utilisation: float | None = None
    transposing: float | None = None
    bound_by: str = ""
    sram_bytes: int | None = None
    off_chip_bytes: int | None = None
    weight_bytes: int | None = None
    operations: int | None = None
    on_cpu: int = 0
    sqnr_db: float | None = None
    fits: bool = True
    program: str = ""

    @classmethod
    def of(cls, network: str, record: Record, figures: PointFigures, sram: int | None) -> BaselinePoint:
        """Return the point of a record that was compiled and timed, with the figures derived from it.

        Args:
            network: the network's name.
            record: the record.
            figures: its figures.
            sram: bytes of the board's SRAM.
        """
        refused = record.verdict not in (Verdict.COMPILED_ONLY, Verdict.VERIFIED)
        failure = record.failure
        in_dram = record.memory_mode == _ALL_IN_SRAM and bool(figures.dram_bytes)
        return cls(
            network,
            record.npu,
            record.memory_mode,
            record.system_config,
            str(record.verdict),
            reason=failure.message if refused and failure is not None else "",
            clock_hz=figures.clock_hz,
            cycles=figures.cycles,
            vela_cycles=figures.vela_cycles,
            macs=figures.macs,
            utilisation=None if figures.utilisation is None else round(figures.utilisation, 4),
            transposing=_transposing(record, figures.cycles),
            bound_by=figures.bound_by,
            sram_bytes=figures.sram_peak,
            off_chip_bytes=figures.dram_bytes,
            weight_bytes=figures.weight_bytes,
            operations=figures.operations,
            on_cpu=len(left_to_cpu(record)),
            fits=not in_dram and (sram is None or (figures.sram_peak or 0) <= sram),
            program=program_of(record),
        )

    def booted(self, record: Record) -> BaselinePoint:
        """Return the point with the verdict of the same program on the virtual board.

        It fails where that ran another program, or counted other cycles though all was in the memories of the mode.
        """
        failure = record.failure
        if record.verdict is not Verdict.VERIFIED:
            reason = "no reason is given" if failure is None else failure.message
            return replace(self, verdict=str(Verdict.FAILED), reason=f"on the virtual board: {reason}")
        ran, counted = program_of(record), cycles_of(record)
        if ran != self.program:
            return replace(self, verdict=str(Verdict.FAILED), reason=f"program {ran} ran, and {self.program} was timed")
        if counted != self.cycles and self.fits:
            reason = f"the virtual board counts {counted} cycles, and {self.cycles} are modelled without it"
            return replace(self, verdict=str(Verdict.FAILED), reason=reason)
        known = [output.sqnr_db for output in record.accuracy if output.sqnr_db is not None]
        return replace(self, verdict=str(Verdict.VERIFIED), sqnr_db=round(min(known), 2) if known else None)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from the other points."""
        return self.network, self.npu, self.memory_mode

    @property
    def family(self) -> str:
        """The NPU's generation, "U55"."""
        return self.npu.split("-")[1].upper()

    @property
    def milliseconds(self) -> float | None:
        """Time of the NPU at its clock."""
        return self.cycles / self.clock_hz * 1e3 if self.cycles is not None and self.clock_hz else None

    @property
    def per_second(self) -> float | None:
        """Inferences per second, of the NPU alone."""
        return 1e3 / self.milliseconds if self.milliseconds else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> BaselinePoint:
        """Return the point that `to_json` returned as data."""
        return cls(**data)


def program_of(record: Record) -> str:
    """Return 16 digits that stand for the command streams and the weights of a record's program; "" of none."""
    parts = () if record.artifact is None else record.artifact.delegates
    text = "".join(f"{part.stream_sha256}{part.weights_sha256}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def cycles_of(record: Record) -> int | None:
    """Return the NPU cycles of a record."""
    return next((int(metric.value) for metric in record.metrics if metric.name == "npu_cycles"), None)


def _transposing(record: Record, cycles: int | None) -> float | None:
    mine = sum(op.cycles or 0 for op in record.ops if op.tosa_op == _TRANSPOSE)
    return round(mine / cycles, 4) if cycles else None


def left_to_cpu(record: Record) -> list[tuple[str, str]]:
    """Return operator and reason of each call left to the CPU; conversions of inputs and outputs are not among them."""
    calls = () if record.artifact is None else record.artifact.cpu_calls
    return [(call.operator, call.reason) for call in calls if call.kind == "operator"]
