"""`make bench`: what the harness costs, measured now, on this machine; how fast suites and NPU model are, what
the patches of upstream save, and how good the timing is.

Ratios compare two things timed in turn in this run; they mean more than the seconds, which depend on the machine and on
what else it is doing.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from elftools.elf.elffile import ELFFile
from rich.table import Table

from ethos_hil.harness.cli.main import guard
from ethos_hil.harness.cli.progress import Live
from ethos_hil.harness.cli.render import console
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.npu import Configuration, Npu, forget
from ethos_hil.harness.run import Report, find_firmware, run, run_artifact
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.harness.virtual.pool import BoardPool
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.model import load_model
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.silence_tools import quiet
from ethos_hil.suites.lab.self_bench import npu, patches, suite_tests, timing_model

SIZE = NpuName.parse("ethos-u55-128")
ROUNDS = 7


@dataclass(frozen=True)
class Figure:
    """One figure and what was asked of it."""

    what: str
    value: str
    asked: str


def milliseconds(seconds: float) -> str:
    """For people."""
    return f"{seconds * 1e3:,.1f} ms"


def median_time(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median wall seconds of `work`."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def firmware_size(elf: bytes) -> int:
    """Bytes of code and constants: all allocated sections that are not writable."""
    sections = ELFFile(io.BytesIO(elf)).iter_sections()
    return sum(
        section["sh_size"]
        for section in sections
        if section["sh_flags"] & 2 and not section["sh_flags"] & 1 and section["sh_type"] != "SHT_NOBITS"
    )


def per_inference(report: Report) -> float:
    """Host seconds an inference beyond the NPU model's own: everything between the first frame and the last."""
    seconds = report.outcome.seconds
    return (seconds["total"] - seconds["launch"] - seconds["npu"]) / len(report.outcome.runs)


def npu_against_reference(artifact: Artifact) -> tuple[float, float, float]:
    """Median seconds for the delegates of one inference: NPU model cold, NPU model again, tosa_reference_model.

    Cold includes decoding the stream and the weights; again does not. The three are timed in turn, `ROUNDS` times.
    """
    import tosa_reference_model

    random = np.random.default_rng(0)
    cold: list[float] = []
    warm: list[float] = []
    oracle: list[float] = []
    for delegate in artifact.delegates:
        if delegate.tosa is None:
            continue
        shapes = [tensor.shape for tensor in TosaGraph.parse(delegate.tosa).inputs]
        inputs = [random.integers(-128, 128, shape, np.int8) for shape in shapes]
        raw = [value.tobytes() for value in inputs]
        with quiet():  # the reference model prints a line per call
            for _ in range(ROUNDS):
                forget()
                npu = Npu(Configuration.parse(str(SIZE)))
                for times in (cold, warm):
                    started = time.perf_counter()
                    run_delegate(npu, delegate.blob, raw)
                    times.append(time.perf_counter() - started)
                started = time.perf_counter()
                tosa_reference_model.run(delegate.tosa, inputs)
                oracle.append(time.perf_counter() - started)
    return statistics.median(cold), statistics.median(warm), statistics.median(oracle)


def measure(live: Live) -> list[Figure]:
    """All figures."""
    firmware = find_firmware()
    rows = [Figure("firmware, code and constants", f"{firmware_size(firmware) / 1024:,.1f} KiB", "< 96 KiB")]
    live.stage("Packing")
    program = np.random.default_rng(0).bytes(4 << 20)
    packing = median_time(lambda: pack(firmware, program, [[bytes(3 * 224 * 224)]], RunPlan(1, 1)))
    rows.append(Figure("packing a 4 MB program", milliseconds(packing), "< 100 ms"))

    digits = run(load_model("ethos_hil.suites.models.digits:digits"), SIZE, repeat=50, reporter=live)
    launches: tuple[list[float], list[float]] = ([], [])
    with BoardPool() as pool:
        for _ in range(1 + ROUNDS):
            for times, waiting in zip(launches, (None, pool), strict=True):
                board = make_target("virtual", SIZE, pool=waiting)
                again = run_artifact(digits.artifact, board, firmware, label="digits", reporter=live)
                times.append(again.outcome.seconds["launch"])
    fresh, kept = (statistics.median(times[1:]) for times in launches)
    rows.append(Figure("QEMU launch to first frame, median", milliseconds(fresh), "< 500 ms"))
    rows.append(Figure("the same on a board that stays up", f"{milliseconds(kept)}, ratio {kept / fresh:.2f}", ""))
    rows.append(Figure("host overhead an inference, digits", milliseconds(per_inference(digits)), "< 100 ms"))

    mobilenet = run(load_model("ethos_hil.suites.models:mobilenet_v2"), SIZE, reporter=live)
    started = time.perf_counter()
    run_artifact(mobilenet.artifact, make_target("virtual", SIZE), firmware, label="mobilenet_v2", reporter=live)
    whole = time.perf_counter() - started
    rows.append(Figure("MobileNetV2 224x224, lowered: pack, boot, run, verify", milliseconds(whole), "< 10,000 ms"))
    rows.append(Figure("host overhead an inference, MobileNetV2", milliseconds(per_inference(mobilenet)), "< 100 ms"))

    live.stage("Timing the NPU model against tosa_reference_model")
    for name, report, first, further in (("MobileNetV2", mobilenet, 0.4, 0.17), ("digits", digits, 1.0, 1.0)):
        cold, warm, oracle = npu_against_reference(report.artifact)
        rows.append(Figure(f"{name}: tosa_reference_model", milliseconds(oracle), ""))
        rows.append(
            Figure(f"{name}: NPU model, cold", f"{milliseconds(cold)}, ratio {cold / oracle:.2f}", f"ratio <= {first}")
        )
        rows.append(
            Figure(
                f"{name}: NPU model, again", f"{milliseconds(warm)}, ratio {warm / oracle:.2f}", f"ratio <= {further}"
            )
        )
    return rows


def main() -> int:
    """Print the table."""
    with Live() as live:
        rows = measure(live)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("host time, measured now", "", "asked"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.what, row.value, row.asked)
    console().print(table)
    return suite_tests.main() or patches.main() or npu.main() or timing_model.main()


if __name__ == "__main__":
    guard(main)
