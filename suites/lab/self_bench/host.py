"""What the harness costs on this machine: sizes, packing, boots, and a network from end to end."""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.npu import Npu, forget
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.silence_tools import quiet
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.testing.reference import reference_model
from ethos_hil.suites.lab.self_bench.figure import BenchPart, Figure, Threshold, at_most

SIZE = EthosU.parse("ethos-u55-128")
DIGITS, MOBILENET = "ethos_hil.suites.models.digits:digits", "ethos_hil.suites.models:mobilenet_v2"
ROUNDS = 7
MEDIAN = f"wall, median of {ROUNDS}"
RATIO = f"ratio of medians of {ROUNDS}, timed in turn"


def median_time(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median wall seconds of `work`."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def firmware_size(elf: bytes) -> int:
    """Return the bytes of code and constants: of all allocated sections that are not writable."""
    sections = ELFFile(io.BytesIO(elf)).iter_sections()
    return sum(
        section["sh_size"]
        for section in sections
        if section["sh_flags"] & 2 and not section["sh_flags"] & 1 and section["sh_type"] != "SHT_NOBITS"
    )


def per_inference(report: Report) -> float:
    """Return the host's seconds for an inference, without the NPU model's: from the first frame to the last."""
    seconds = report.outcome.seconds
    return (seconds["total"] - seconds["launch"] - seconds["npu"]) / len(report.outcome.runs)


@dataclass(frozen=True)
class DelegateTimes:
    """Median seconds for the delegates of one inference.

    Attributes:
        cold: of the NPU model, with decoding the stream and the weights.
        warm: of the NPU model again.
        reference: of tosa_reference_model.
    """

    cold: float
    warm: float
    reference: float


def npu_against_reference(artifact: Artifact) -> DelegateTimes:
    """Time the NPU model, cold and warm, and tosa_reference_model in turn, `ROUNDS` times."""
    model, random = reference_model(), np.random.default_rng(0)
    cold: list[float] = []
    warm: list[float] = []
    reference: list[float] = []
    for delegate in artifact.delegates:
        if delegate.tosa is None:
            continue
        shapes = [tensor.shape for tensor in TosaGraph.parse(delegate.tosa).inputs]
        inputs = [random.integers(-128, 128, shape, np.int8) for shape in shapes]
        raw = [value.tobytes() for value in inputs]
        with quiet():  # the reference model prints a line per call
            for _ in range(ROUNDS):
                forget()
                npu = Npu(EthosU.parse(str(SIZE)))
                for times in (cold, warm):
                    started = time.perf_counter()
                    run_delegate(npu, delegate.blob, raw)
                    times.append(time.perf_counter() - started)
                started = time.perf_counter()
                model.run(delegate.tosa, inputs)
                reference.append(time.perf_counter() - started)
    return DelegateTimes(statistics.median(cold), statistics.median(warm), statistics.median(reference))


def python_seconds(*arguments: str) -> float:
    """Return the wall seconds of a Python process with these arguments, the least of several runs."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def lowering_seconds(model: str) -> tuple[float, float]:
    """Return the CPU seconds of lowering a model with an empty cache and from the cache. Imports do not count."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        for name in (DIGITS, model, model):  # the first one imports what lowering needs
            source = load_model(name)
            started = time.process_time()
            lower(source, SIZE, cache=cache)
            seconds.append(time.process_time() - started)
    return seconds[1], seconds[2]


def measure(live: Live) -> BenchPart:
    """Measure all figures of this part."""
    firmware = find_firmware()
    help_text = python_seconds("-m", "ethos_hil.harness.cli.main", "--help")
    figures = [
        Figure(
            f"firmware of {soc.name}, code and constants",
            firmware_size(find_firmware(soc.name)) / 1024,
            "KiB",
            "sections of the ELF",
            at_most(160),
        )
        for soc in SOCS
    ]
    figures.append(Figure("ethos-hil --help", help_text, "s", f"wall, least of {ROUNDS}", at_most(1)))
    live.stage("Packing")
    program = np.random.default_rng(0).bytes(4 << 20)
    packing = median_time(lambda: pack(firmware, program, [[bytes(3 * 224 * 224)]], RunPlan(1, 1)))
    figures.append(_milliseconds("packing a 4 MB program", packing, MEDIAN, at_most(100)))

    digits = run(Question(DIGITS, repeat=50), reporter=live)
    launches: tuple[list[float], list[float]] = ([], [])
    with BoardPool() as pool:
        for _ in range(1 + ROUNDS):
            for times, waiting in zip(launches, (None, pool), strict=True):
                board = make_target("virtual", SIZE, pool=waiting)
                again = run_artifact(digits.artifact, board, Question("digits"), reporter=live)
                times.append(again.outcome.seconds["launch"])
    fresh, kept = (statistics.median(times[1:]) for times in launches)
    figures += [
        _milliseconds("QEMU launch to first frame", fresh, MEDIAN, at_most(500)),
        _milliseconds("the same on a board that stays up", kept, MEDIAN),
        _milliseconds("host overhead an inference, digits", per_inference(digits), "wall, mean of 50", at_most(100)),
    ]

    mobilenet = run(Question(MOBILENET), reporter=live)
    started = time.perf_counter()
    run_artifact(mobilenet.artifact, make_target("virtual", SIZE), Question("mobilenet_v2"), reporter=live)
    whole = time.perf_counter() - started
    live.stage("Lowering MobileNetV2 with an empty cache")
    cold, cached = lowering_seconds(MOBILENET)
    name = "MobileNetV2 224x224"
    overhead = per_inference(mobilenet)
    figures += [
        _milliseconds(f"{name}, lowered: pack, boot, run, verify", whole, "wall, one run", at_most(10_000)),
        _milliseconds(f"host overhead an inference, {name}", overhead, "wall, one inference", at_most(100)),
        # What ExecuTorch and Vela alone took where this project started, on two cores; and a goal for the cache.
        Figure(f"{name}, lowering", cold, "s", "CPU, one run", at_most(42.5)),
        Figure(f"{name}, lowering from the cache", cached, "s", "CPU, one run, beyond imports", at_most(1)),
    ]

    live.stage("Timing the NPU model against tosa_reference_model")
    large, small = (npu_against_reference(report.artifact) for report in (mobilenet, digits))
    figures += npu_figures(large, small, python_seconds("-c", ""))
    return BenchPart(tuple(figures))


def npu_figures(mobilenet: DelegateTimes, digits: DelegateTimes, interpreter: float) -> list[Figure]:
    """Return what is asked of the NPU model's speed, for a large program and a small one.

    A small program is decoded once in its life. That may cost what starting an interpreter does (seconds).
    """

    def ratio(what: str, seconds: float, times: DelegateTimes, limit: float) -> Figure:
        what = f"{what}: NPU model's time / reference's"
        return Figure(what, seconds / times.reference, "times", RATIO, at_most(limit))

    behind = digits.cold - digits.reference
    return [
        _milliseconds("MobileNetV2: tosa_reference_model", mobilenet.reference, MEDIAN),
        ratio("MobileNetV2, cold", mobilenet.cold, mobilenet, 0.4),
        ratio("MobileNetV2, warm", mobilenet.warm, mobilenet, 0.17),
        _milliseconds("digits: tosa_reference_model", digits.reference, MEDIAN),
        _milliseconds("digits, cold: NPU model behind the reference", behind, MEDIAN, at_most(interpreter * 1e3)),
        ratio("digits, warm", digits.warm, digits, 1),
    ]


def _milliseconds(what: str, seconds: float, provenance: str, threshold: Threshold | None = None) -> Figure:
    return Figure(what, seconds * 1e3, "ms", provenance, threshold)
