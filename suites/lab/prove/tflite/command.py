"""`python -m ethos_hil.suites.lab tflite`: networks of TensorFlow Lite on the functional NPU, compared with TensorFlow
Lite Micro. `make conformance` runs it.

Exit status: 0 no output differs, 1 some do or a check hung or crashed, 2 unusable arguments, 3 TensorFlow Lite Micro is
not installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import CommandSet
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.testing.tflite_graph import Generator
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.conformance.check import summary, to_json
from ethos_hil.suites.lab.prove.tflite.check import Place, TfliteJob, TflmAnswer, answers
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile, npus_of, run_jobs, show, write_json

RECORDED = Path(__file__).with_name("answers.json")
SAMPLE = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
LIMIT_SECONDS = 300.0


def main(
    npu: Annotated[
        list[str] | None,
        typer.Option(metavar="NPU", help=f"Configuration; default: one of each generation, {', '.join(SAMPLE)}."),
    ] = None,
    network: Annotated[str, typer.Option(metavar="TEXT", help="Only networks with this in their name.")] = "",
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    record: Annotated[
        bool, typer.Option("--record", help="Keep digests of the answers, which tests compare with, in answers.json.")
    ] = False,
) -> None:
    """Compile TensorFlow Lite networks with both of Vela's generators and compare with TensorFlow Lite Micro."""
    names = [name for name in NETWORKS if network in name]
    if not names:
        raise UsageError(
            f"no network is called *{network}*", hint=f"there are {len(NETWORKS)}, such as {next(iter(NETWORKS))}"
        )
    places = places_of(npus_of(npu, SAMPLE))
    with Live() as live:
        live.stage(f"Running {len(names)} networks with TensorFlow Lite Micro")
        right = answers(names)
    work = [TfliteJob(name, right[name], places) for name in names]
    what = f"Checking {len(names)} networks at {len(places)} places"
    results = run_jobs(Crew(jobs, LIMIT_SECONDS), work, what)
    order = {(npu, str(generator)): index for index, (npu, generator) in enumerate(places)}
    results.sort(key=lambda result: (order[result.npu, result.mode], result.program))
    show(summary(results))
    write_json(json_file, to_json(results))
    if record:
        write_json(RECORDED, digests(right))
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


def digests(right: Mapping[str, TflmAnswer]) -> dict[str, dict[str, str]]:
    """Return SHA-256 of each network and of all its right outputs."""
    return {
        name: {"tflite": _sha256([NETWORKS[name].tflite]), "outputs": outputs_digest(answer.outputs)}
        for name, answer in right.items()
        if not answer.problem
    }


def outputs_digest(outputs: Sequence[Sequence[np.ndarray]]) -> str:
    """Return SHA-256 of the outputs of all inferences."""
    return _sha256([array.tobytes() for inference in outputs for array in inference])


def _sha256(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
