"""Protects exactness: every operator program equals tosa_reference_model bit for bit on one NPU of each generation.

`make conformance` does the same for every configuration and memory mode. Also protects the judge: that it sees wrong
rounding, hangs and crashes, and tells the ways apart in which nothing could be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import forget
from ethos_hil.harness.npu.decode import fields_u55, fields_u85
from ethos_hil.harness.npu.isa.scaling import Rounding
from ethos_hil.harness.testing.compiled_graph import compile_graph, modes_of
from ethos_hil.lowering.testing.programs.catalogue import OPERATORS
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Rng, TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal
from ethos_hil.suites.lab.prove.conformance import check as checking
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, Checker, CheckResult, check
from ethos_hil.suites.lab.tests.running import run_part

SAMPLE = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
TURNS = {f"transpose {' '.join(order)}" for order in permutations("123")}
"""An Ethos-U85 has a code for each: none may be told from another by chance."""
PLAIN_SHIFT = "how a negative value half-way"  # emitted with a rounding that TOSA's plain shift does not have
TWO_SCALES = "shifted left by 14 whatever the register says"  # Vela 5.1 fuses the scales of both operands wrongly
# What is refused, by program and family, and a part of why. Nothing else that compiles may fault.
REFUSED = {
    **{(name, old): PLAIN_SHIFT for name in ("int32 shift right", "chain of 32 bits") for old in ("u55", "u65")},
    **{(f"{name} int16, scales differ by two", old): TWO_SCALES for name in ("add", "sub") for old in ("u55", "u65")},
    ("conv int16 by way of int32", "u85"): "multipliers of 15 bits",
}


def settled(verdict: CheckResult, program: TosaProgram) -> None:
    """Fail unless a verdict is what it has to be: Ethos-U85 runs everything, the others what Vela documents for them.

    Input sets that the reference calls unpredictable are left out of a comparison; there must not be any.
    """
    if verdict.outcome is CheckEnding.EXACT:
        assert verdict.sets == len(program.kinds) + len(program.given)
    family = EthosU.parse(verdict.npu).family.name
    refusal = REFUSED.get((verdict.program, family))
    if refusal is not None:
        assert verdict.outcome is CheckEnding.FAULTED, verdict
        assert refusal in verdict.detail
    elif family == "u85":
        assert verdict.outcome is CheckEnding.EXACT, verdict
    else:
        assert verdict.outcome in (CheckEnding.EXACT, CheckEnding.NOT_COMPILED), verdict


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            program,
            id=name,
            marks=[pytest.mark.proof] * (name in OPERATORS and number % 3 > 0 and name not in TURNS)
            + [pytest.mark.slow] * ("Mobile" in name),
        )
        for number, (name, program) in enumerate({**OPERATORS, **NETWORKS}.items())
    ],
)
@pytest.mark.product
def test_a_program_is_exact(program: TosaProgram) -> None:
    checker = Checker(program)
    for npu in SAMPLE:
        settled(checker.check(npu, modes_of(npu)[0]), program)


def test_vela_compiles_as_much_as_before() -> None:
    """A change in Vela, or in how programs are built, must not quietly empty the comparison on U55 and U65."""
    refused = []
    for program in OPERATORS.values():
        try:
            compile_graph(program.tosa, "ethos-u55-128", *program.flags)
        except VelaRefusal as error:
            refused.append(str(error))
    assert all("could not run on NPU" in reason for reason in refused)
    assert len(refused) == 126


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
@pytest.mark.product
def test_memory_modes_put_weights_and_maps_where_they_say(npu: str) -> None:
    program = OPERATORS["cascade of inverted residuals"]
    streams = set()
    for mode in modes_of(npu):
        compiled = compile_graph(program.tosa, npu, mode=mode)
        assert bool(compiled.fast_bytes) == mode.startswith("Dedicated")
        assert check(program, npu, mode).outcome is CheckEnding.EXACT
        fast = any(access.region == 2 for op in compiled.program().ops for access in op.accesses)
        assert fast == mode.startswith("Dedicated")
        streams.add(compiled.stream)
    assert len(streams) > 1


SENSITIVE = (
    "conv with ties in every channel",
    "rescale int8 to int8",
    "ties int32 to int8 by 5",
    "ties int8 to int8 by 2, double rounding",
    "ties int32 to int32 by 2, double rounding",
    "add, all pairs",
    "sub, ties",
    "int32 shift right",
)


def outcomes(npu: str) -> set[CheckEnding]:
    """How the programs end that rounding matters for."""
    forget()
    return {check(OPERATORS[name], npu, modes_of(npu)[0]).outcome for name in SENSITIVE}


@pytest.fixture
def cold() -> Iterator[None]:
    """Nothing decoded with a sabotaged model is left to other tests."""
    yield
    forget()


def round_otherwise(npu: str, true: Rounding, false: Rounding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an NPU round one way where another is right."""
    if npu.startswith("ethos-u85"):
        (number,) = (number for number, rounding in fields_u85.OFM_ROUNDING.items() if rounding is true)
        monkeypatch.setitem(fields_u85.OFM_ROUNDING, number, false)
        return
    rounding: Callable[..., Rounding] = fields_u55.FieldsU55.rounding
    monkeypatch.setattr(
        fields_u55.FieldsU55,
        "rounding",
        lambda *arguments: false if rounding(*arguments) is true else rounding(*arguments),
    )


@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize(
    ("npu", "true", "false"),
    [
        ("ethos-u55-128", Rounding.NATURAL, Rounding.FLOOR),
        ("ethos-u55-128", Rounding.DOUBLE, Rounding.NATURAL),
        ("ethos-u85-256", Rounding.NATURAL, Rounding.DOUBLE),
        ("ethos-u85-256", Rounding.DOUBLE, Rounding.FLOOR),
        ("ethos-u85-256", Rounding.FLOOR, Rounding.NATURAL),
    ],
    ids=str,
)
def test_wrong_rounding_is_a_mismatch(
    npu: str, true: Rounding, false: Rounding, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CheckEnding.MISMATCH not in outcomes(npu)
    round_otherwise(npu, true, false, monkeypatch)
    assert CheckEnding.MISMATCH in outcomes(npu)


def test_a_difference_is_named_with_both_values(recorded: Recorded) -> None:
    expected = [np.arange(12, dtype=np.int16).reshape(1, 3, 4), np.array([True, False])]
    right, damaged = expected[0].tobytes(), expected[0].copy()
    damaged[0, 1, 2], damaged[0, 2, 0] = -700, 5
    answers = ([damaged.tobytes(), b"\x01\x00"], [right, b"\x01\xff"], [b""], [b"abcdef", b"\x01\x00"])
    recorded.check([list(checking.differences(answer, expected)) for answer in answers])


def undefined(graph: Graph, rng: Rng) -> Value:
    """A sum that may overflow int32, which TOSA does not define."""
    return graph.binary("ADD", graph.input((1, 4), "int32"), graph.input((1, 4), "int32"))


def test_what_cannot_be_compared_is_not_exact() -> None:
    overflow = TosaProgram("overflow", undefined, kinds=("extremes",))
    for program, ending, detail in (
        (overflow, CheckEnding.NOT_COMPARABLE, "TOSA_UNPREDICTABLE"),
        (OPERATORS["int8 bitwise xor"], CheckEnding.NOT_COMPILED, "(Xor) could not run on NPU"),
    ):
        verdict = check(program, "ethos-u55-128", "Shared_Sram")
        assert verdict.outcome is ending
        assert detail in verdict.detail


def test_the_command_prints_counts_and_faults_and_writes_files(tmp_path: Path, recorded: Recorded) -> None:
    files = ("--json", str(tmp_path / "all.json"), "--coverage", str(tmp_path / "kinds.json"))
    npus = ("--npu", "ethos-u55-32", "--npu", "ethos-u85-128")
    done = run_part("conformance", *npus, "--program", "shift right", *files)
    assert done.returncode == 0, done.stderr
    assert PLAIN_SHIFT in done.stdout
    rows = [" ".join(line.split()) for line in done.stdout.splitlines() if line.startswith("ethos")]
    covered = json.loads((tmp_path / "kinds.json").read_text())
    facts = {name: covered[name] for name in ("programs", "npus", "outcomes")}
    recorded.check({"rows": rows, **facts, "SHR": covered["operations"]["ELEMENTWISE SHR"]})
    assert json.loads((tmp_path / "all.json").read_text())["outcomes"] == covered["outcomes"]
