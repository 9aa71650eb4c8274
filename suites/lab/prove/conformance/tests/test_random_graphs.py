"""A short run of random graphs on one NPU of each generation, and the proof that it sees wrong arithmetic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import typer

from ethos_hil.harness.npu import forget
from ethos_hil.harness.npu.decode import fields_u55
from ethos_hil.harness.npu.isa.scaling import Rounding
from ethos_hil.harness.testing.compiled_graph import modes_of
from ethos_hil.lowering.testing.programs.pieces import requantized, spread, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, Rng, TosaProgram
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.conformance import command
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, Checker, CheckJob, CheckResult
from ethos_hil.suites.lab.prove.conformance.random_graphs import FORMS, named, program, seed_of
from ethos_hil.suites.lab.tests.running import run_part

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def test_random_graphs_are_exact() -> None:
    """One of each form; what they are made of is in suites/lab/prove/conformance/random_graphs.py."""
    outcomes: dict[str, Counter[CheckEnding]] = {npu: Counter() for npu in NPUS}
    for seed in range(len(FORMS)):
        checker = Checker(program(seed))
        for npu in NPUS:
            verdict = checker.check(npu, modes_of(npu)[0])
            assert verdict.outcome in (CheckEnding.EXACT, CheckEnding.NOT_COMPILED), verdict
            outcomes[npu][verdict.outcome] += 1
    # Graphs that do not get beyond the compiler test nothing.
    assert outcomes["ethos-u85-256"] == {CheckEnding.EXACT: len(FORMS)}
    assert min(outcomes[npu][CheckEnding.EXACT] for npu in NPUS) > len(FORMS) // 2


def test_a_seed_is_all_that_a_graph_depends_on() -> None:
    seeds = range(5000, 5000 + len(FORMS))
    first = [program(seed) for seed in seeds]
    again = [named(graph.name) for graph in reversed(first)][::-1]
    assert [seed_of(graph.name) for graph in again] == list(seeds)
    assert len({graph.tosa for graph in first}) == len(first)
    for original, repeat in zip(first, again, strict=True):
        assert (original.tosa, original.flags, original.limits) == (repeat.tosa, repeat.flags, repeat.limits)
        for (_, inputs), (_, same) in zip(original.input_sets(), repeat.input_sets(), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(inputs, same, strict=True))


def point_then_clamp(graph: Graph, rng: Rng) -> Value:
    """A fully connected layer with batch and a clamp."""
    sums = graph.conv(graph.input((2, 1, 1, 20)), weights(rng, 7, 1, 1, 20), rng.integers(-99, 99, 7))
    return graph.clamp(requantized(graph, rng, sums, spread(20), "int8"), -50, 77)


def two_rows_four_columns(graph: Graph, rng: Rng) -> Value:
    """A map enlarged by different factors."""
    return graph.resize(graph.input((1, 5, 6, 8)), "NEAREST", (4, 2, 8, 2), (-1, -3), (1, 3))


def cropped_to_a_row(graph: Graph, rng: Rng) -> Value:
    """A transposed convolution of which one row stays."""
    source, kernels = graph.input((1, 2, 6, 9)), weights(rng, 8, 3, 3, 9)
    crops = (-2, -2, 0, 0)
    sums = graph.transpose_conv(source, kernels, rng.integers(-99, 99, 8), out_pad=crops, stride=(2, 1))
    return requantized(graph, rng, sums, 0.01, "int8")


def padded_table_of_a_transposed_map(graph: Graph, rng: Rng) -> Value:
    """Columns of padding around a table of a transposed map."""
    looked_up = graph.table(graph.transpose(graph.input((1, 6, 10, 4)), (0, 2, 3, 1)), rng.integers(-128, 128, 256))
    return graph.pad(looked_up, (0, 0, 0, 0, 0, 2, 0, 0), 5)


@pytest.mark.parametrize(
    ("build", "npus"),
    [
        (point_then_clamp, NPUS),
        (two_rows_four_columns, NPUS[:2]),
        (cropped_to_a_row, NPUS),
        (padded_table_of_a_transposed_map, NPUS[:2]),
    ],
    ids=lambda parameter: getattr(parameter, "__name__", ""),
)
def test_what_is_not_drawn_is_still_compiled_wrongly(build: Build, npus: Sequence[str]) -> None:
    """Defects of Vela 5.1, each clear from its stream; when this test fails, the form can be drawn again."""
    checker = Checker(TosaProgram(build.__name__, build))
    assert [checker.check(npu, modes_of(npu)[0]).outcome for npu in npus] == [CheckEnding.MISMATCH] * len(npus)


@pytest.fixture
def cold() -> Iterator[None]:
    """Nothing decoded with a sabotaged model is left to other tests."""
    forget()
    yield
    forget()


def here(crew: Crew, jobs: Sequence[CheckJob], what: str, *, many: int) -> list[CheckResult]:
    """Instead of run_jobs: in this process, which has the sabotage."""
    return [check(item) for job in jobs for check in (job.prepare(),) for item in range(job.count)]


@pytest.mark.usefixtures("cold")
def test_wrong_arithmetic_is_a_mismatch_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    monkeypatch.setattr(command, "run_jobs", here)
    command.main(random=8, seed=0, npu=["ethos-u55-128"], jobs=1, json_file=file)
    assert "mismatch:" not in capfd.readouterr().out

    rounding: Callable[..., Rounding] = fields_u55.FieldsU55.rounding
    monkeypatch.setattr(
        fields_u55.FieldsU55,
        "rounding",
        lambda *values: Rounding.FLOOR if rounding(*values) is Rounding.NATURAL else rounding(*values),
    )
    forget()
    with pytest.raises(typer.Exit) as ended:
        command.main(random=8, seed=0, npu=["ethos-u55-128"], jobs=1, json_file=file)
    assert ended.value.exit_code == 1
    written = json.loads(file.read_text())
    wrong = {seed_of(verdict["program"]) for verdict in written["verdicts"] if verdict["outcome"] == "mismatch"}
    assert wrong
    output = capfd.readouterr().out
    for seed in wrong:
        assert f"mismatch: {program(seed).name}: " in output
        assert f"conformance --random 1 --seed {seed} --npu ethos-u55-128" in output
    # The seed by itself brings it back.
    with pytest.raises(typer.Exit):
        command.main(random=1, seed=min(wrong), npu=["ethos-u55-128"], jobs=1)


def test_the_command_works_in_processes() -> None:
    arguments = ("conformance", "--random", 70, "--npu", "ethos-u85-128", "-j", 2, "--program", "0,")
    done = run_part(*arguments, seconds=100)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ethos")]
    assert rows == [["ethos-u85-128", mode, *"700000"] for mode in modes_of("ethos-u85-128")]
