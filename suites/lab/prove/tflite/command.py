"""`python -m ethos_hil.suites.lab tflite`: networks of TensorFlow Lite on the functional NPU, compared with TensorFlow
Lite Micro. `make conformance` runs it.

Exit status: 0 no output differs, 1 some do or a check hung or crashed, 2 unusable arguments, 3 TensorFlow Lite Micro is
not installed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import CommandSet
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.formats.npu_network import read_ends
from ethos_hil.lowering.testing.compile_tflite import Generator
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile
from ethos_hil.suites.lab.prove.conformance import report
from ethos_hil.suites.lab.prove.tflite.check import Place, Sets, TfliteJob, TflmAnswer, answers, drawn
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS, SETS
from ethos_hil.suites.lab.shared import npus_of, run_jobs, show, write_json

RECORDED = Path(__file__).with_name("answers.json")
SAMPLE = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
LIMIT_SECONDS = 300.0
_MOST = 1 << 28


@dataclass(frozen=True)
class TfliteQuestion:
    """A network to check: its flatbuffer, names of its inputs and outputs, and the inputs of each inference."""

    tflite: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sets: Sets


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Networks (.tflite); default: the catalogue's.")
    ] = None,
    npu: Annotated[
        list[str] | None,
        typer.Option(metavar="NPU", help=f"Configuration; default: one of each generation, {', '.join(SAMPLE)}."),
    ] = None,
    network: Annotated[str, typer.Option(metavar="TEXT", help="Only networks with this in their name.")] = "",
    generator: Annotated[
        Generator | None, typer.Option(help="Only this one of Vela's generators; default: both.")
    ] = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    record: Annotated[
        bool, typer.Option("--record", help="Keep digests of the answers, which tests compare with, in answers.json.")
    ] = False,
) -> None:
    """Compile TensorFlow Lite networks with both of Vela's generators and compare with TensorFlow Lite Micro."""
    questions = {str(path): of_file(path) for path in files} if files else catalogue(network)
    if not questions:
        raise UsageError(
            f"no network is called *{network}*", hint=f"there are {len(NETWORKS)}, such as {next(iter(NETWORKS))}"
        )
    places = [place for place in places_of(npus_of(npu, SAMPLE)) if generator in (None, place[1])]
    with Live() as live:
        live.stage(f"Running {len(questions)} networks with TensorFlow Lite Micro")
        right = answers({name: (question.tflite, question.sets) for name, question in questions.items()})
    work = [job(name, question, right[name], places) for name, question in questions.items()]
    what = f"Checking {len(questions)} networks at {len(places)} places"
    results = run_jobs(Crew(jobs, LIMIT_SECONDS), work, what)
    order = {(npu, str(generator)): index for index, (npu, generator) in enumerate(places)}
    results.sort(key=lambda result: (order[result.npu, result.mode], result.program))
    show(report.summary(results))
    write_json(json_file, report.to_json(results))
    if record:
        write_json(RECORDED, digests(questions, right))
    if any(result.outcome.failed for result in results):
        raise typer.Exit(1)


def places_of(npus: Sequence[str]) -> list[Place]:
    """Return the configurations with each generator that knows them."""
    return [
        (name, generator)
        for name in npus
        for generator in Generator
        if generator is Generator.REGOR or EthosU.parse(name).family.command_set is not CommandSet.U85
    ]


def catalogue(text: str = "") -> dict[str, TfliteQuestion]:
    """Return the catalogue's networks with a text in their name."""
    return {
        name: TfliteQuestion(
            network.tflite,
            tuple(f"tensor{tensor.index}" for tensor in network.graph.inputs),
            tuple(f"tensor{tensor.index}" for tensor in network.graph.outputs),
            network.input_sets(),
        )
        for name, network in NETWORKS.items()
        if text in name
    }


def of_file(path: Path) -> TfliteQuestion:
    """Return the network of a file, with inputs drawn for it. Raises UsageError."""
    try:
        data = read_bytes(path, most=_MOST)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    inputs, outputs = read_ends(data, str(path))
    sets = []
    for number in range(SETS):
        rng = np.random.default_rng(zlib.crc32(f"{path.name}/{number}".encode()))
        sets.append([drawn(tensor.shape, str(tensor.dtype), tensor.zero, rng, number) for tensor in inputs])
    return TfliteQuestion(data, tuple(tensor.name for tensor in inputs), tuple(tensor.name for tensor in outputs), sets)


def job(name: str, question: TfliteQuestion, answer: TflmAnswer, places: Sequence[Place]) -> TfliteJob:
    """Return the checks of a network."""
    return TfliteJob(name, question.tflite, question.inputs, question.outputs, question.sets, answer, places)


def digests(questions: dict[str, TfliteQuestion], right: dict[str, TflmAnswer]) -> dict[str, dict[str, str]]:
    """Return SHA-256 of each network and of all its right outputs."""
    return {
        name: {"tflite": _sha256([question.tflite]), "outputs": outputs_digest(right[name].outputs)}
        for name, question in questions.items()
        if not right[name].problem
    }


def outputs_digest(outputs: Sequence[Sequence[np.ndarray]]) -> str:
    """Return SHA-256 of the outputs of all inferences."""
    return _sha256([array.tobytes() for inference in outputs for array in inference])


def _sha256(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
