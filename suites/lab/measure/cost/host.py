"""What the harness costs on this machine: sizes, packing, boots, and a network from end to end."""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.suites.lab.measure.cost.figure import Figure

SIZE = EthosU.parse("ethos-u55-128")
DIGITS, MOBILENET = "ethos_hil.suites.models.digits:digits", "ethos_hil.suites.models:mobilenet_v2"
ROUNDS = 7
MEDIAN = f"wall, median of {ROUNDS}"


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


def measure(live: Live) -> Iterator[Figure]:
    """Measure the firmware's size, `--help`, packing, boots, inferences, and lowering."""
    firmware = find_firmware()
    for soc in SOCS:
        size = firmware_size(find_firmware(soc.name)) / 1024
        yield Figure(f"firmware of {soc.name}, code and constants", size, "KiB", "sections of the ELF", at_most=160)
    help_text = python_seconds("-m", "ethos_hil.harness.cli.main", "--help")
    yield Figure("ethos-hil --help", help_text, "s", f"wall, least of {ROUNDS}", at_most=1)
    live.stage("Packing")
    program = np.random.default_rng(0).bytes(4 << 20)
    packing = median_time(lambda: pack(firmware, program, [[bytes(3 * 224 * 224)]], RunPlan(1, 1)))
    yield _milliseconds("packing a 4 MB program", packing, MEDIAN, 100)

    digits = run(Question(DIGITS, repeat=50), reporter=live)
    launches: tuple[list[float], list[float]] = ([], [])
    with BoardPool() as pool:
        for _ in range(1 + ROUNDS):
            for times, waiting in zip(launches, (None, pool), strict=True):
                board = make_target("virtual", SIZE, pool=waiting)
                again = run_artifact(digits.artifact, board, Question("digits"), reporter=live)
                times.append(again.outcome.seconds["launch"])
    fresh, kept = (statistics.median(times[1:]) for times in launches)
    yield _milliseconds("QEMU launch to first frame", fresh, MEDIAN, 500)
    yield _milliseconds("the same on a board that stays up", kept, MEDIAN)
    yield _milliseconds("host overhead an inference, digits", per_inference(digits), "wall, mean of 50", 100)

    mobilenet, name = run(Question(MOBILENET), reporter=live), "MobileNetV2 224x224"
    started = time.perf_counter()
    run_artifact(mobilenet.artifact, make_target("virtual", SIZE), Question("mobilenet_v2"), reporter=live)
    whole = time.perf_counter() - started
    yield _milliseconds(f"{name}, lowered: pack, boot, run, verify", whole, "wall, one run", 10_000)
    overhead = per_inference(mobilenet)
    yield _milliseconds(f"host overhead an inference, {name}", overhead, "wall, one inference", 100)
    live.stage("Lowering MobileNetV2 with an empty cache")
    cold, cached = lowering_seconds(MOBILENET)
    # What ExecuTorch and Vela alone took where this project started, on two cores; and a goal for the cache.
    yield Figure(f"{name}, lowering", cold, "s", "CPU, one run", at_most=42.5)
    yield Figure(f"{name}, lowering from the cache", cached, "s", "CPU, one run, beyond imports", at_most=1)


def _milliseconds(what: str, seconds: float, provenance: str, at_most: float | None = None) -> Figure:
    return Figure(what, seconds * 1e3, "ms", provenance, at_most)
