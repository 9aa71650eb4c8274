"""Every target of ours keeps the contract, and the contract notices targets that break it."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import EthosHilError, TargetError
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import DelegateRun, Ended, Outcome, Progress, Run
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.harness.targets.contract import TargetContract, contract_programs
from ethos_hil.harness.targets.virtual import VirtualTarget


class Quick(TargetContract):
    patience = 1.0


class TestVirtualU55(Quick):
    target, npu = "virtual", "ethos-u55-128"


@pytest.mark.proof
class TestVirtualU65(Quick):
    target, npu = "virtual", "ethos-u65-256"


class TestVirtualU85(Quick):
    target, npu = "virtual", "ethos-u85-256"


class OnLaunchers(Quick):
    """With our launchers in the FVPs' place."""

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, launchers: Path) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(FVP_PATH_VARIABLE, str(launchers))
            yield


@pytest.mark.proof
class TestFvpU55(OnLaunchers):
    target, npu = "corstone-300", "ethos-u55-128"


@pytest.mark.proof
class TestFvpU65WithoutTiming(OnLaunchers):
    target, npu, fast = "corstone-300", "ethos-u65-256", True


class TestFvpU85(OnLaunchers):
    target, npu = "corstone-320", "ethos-u85-256"


# --- The contract notices targets that break it. Each one here is the virtual board with one thing wrong.


pytest_plugins = "pytester"
NPU = "ethos-u55-128"


class Contract(TargetContract):
    __test__ = False
    target, npu, patience = "virtual", NPU, 1.0


CONTRACT = Contract()


class Changing(VirtualTarget):
    """Brings back something else than came: other fields of each run, and of each call of a delegate."""

    def __init__(
        self,
        of_run: Callable[[Run], dict[str, Any]] = lambda run: {},
        of_call: Callable[[DelegateRun], dict[str, Any]] = lambda call: {},
    ) -> None:
        super().__init__(NPU)
        self._of_run, self._of_call = of_run, of_call

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        outcome = super()._run(image, timeout=timeout, progress=progress)
        runs = []
        for run in outcome.runs:
            delegates = tuple(dataclasses.replace(call, **self._of_call(call)) for call in run.delegates)
            runs.append(dataclasses.replace(run, **{"delegates": delegates} | self._of_run(run)))
        return dataclasses.replace(outcome, runs=tuple(runs))


def off_by_one(outputs: tuple[np.ndarray, ...]) -> dict[str, Any]:
    first = outputs[0].copy()
    first.flat[0] += 1
    return {"outputs": (first, *outputs[1:])}


class Claiming(VirtualTarget):
    def __init__(self, *able: Capability) -> None:
        super().__init__(NPU)
        self._able = frozenset(able)

    def capabilities(self) -> frozenset[Capability]:
        return self._able


class Gullible(VirtualTarget):
    """Takes the image's word for the device's, as one that does not read HELLO."""

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        try:
            return super()._run(image, timeout=timeout, progress=progress)
        except TargetError:
            return Outcome(image.run_id, image.image_hash, image.program_hash, 0, 0, {}, (), (), {})


class Lax(VirtualTarget):
    def _expect(self, method: str, state: object) -> None:
        pass


class Deaf(VirtualTarget):
    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        return super()._boot(elf, command_line.replace("absent", "other"), folder, timeout=timeout)


class Forgetful(VirtualTarget):
    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        return dataclasses.replace(super()._boot(elf, command_line, folder, timeout=timeout), status=0)


def called(**names: str) -> VirtualTarget:
    board = VirtualTarget(NPU)
    vars(board).update(names)
    return board


ANSWERS = CONTRACT.test_answers_of_the_whole_plan_equal_the_reference
NUMBERS = CONTRACT.test_cycles_and_operations_are_there_if_and_only_if_they_are_claimed
ALONE = CONTRACT.test_one_run_knows_nothing_of_another
FIT = CONTRACT.test_its_capabilities_fit_together
PLUGIN = CONTRACT.test_it_is_what_its_plugin_says
ON_THE_WAY = CONTRACT.test_a_byte_that_is_damaged_on_the_way_to_the_device_is_noticed
STATES = CONTRACT.test_methods_are_refused_in_a_state_they_are_not_for
BOOTED = CONTRACT.test_a_booted_program_gets_its_command_line_and_gives_its_status
RUNS = itertools.count()
BROKEN: dict[str, tuple[Callable[..., None], Target]] = {
    "a wrong output": (ANSWERS, Changing(lambda run: off_by_one(run.outputs))),
    "a wrong output of a delegate": (ANSWERS, Changing(of_call=lambda call: off_by_one(call.outputs))),
    "no delegates": (ANSWERS, Changing(lambda run: {"delegates": ()})),
    "another order": (ANSWERS, Changing(lambda run: {"repeat": 1 - run.repeat})),
    "no cycles": (NUMBERS, Changing(of_call=lambda call: {"cycles": 0})),
    "no operations": (NUMBERS, Changing(of_call=lambda call: {"op_events": ()})),
    "a cycle too many": (NUMBERS, Changing(of_call=lambda call: {"cycles": call.cycles + 1})),
    "operations backwards": (NUMBERS, Changing(of_call=lambda call: {"op_events": call.op_events[::-1]})),
    "cycles that grow": (ALONE, Changing(of_call=lambda call: {"cycles": call.cycles + next(RUNS)})),
    "cycles and no pool": (FIT, Claiming(Capability.NPU_CYCLES)),
    "operations without cycles": (FIT, Claiming(Capability.OP_EVENTS, Capability.STAYS_UP)),
    "another kind": (PLUGIN, called(kind="board")),
    "another system": (PLUGIN, called(soc="soc")),
    "another NPU": (PLUGIN, called(npu="ethos-u55-64")),
    "an unknown provenance": (PLUGIN, called(cycle_provenance="guessed")),
    "another run's answer": (CONTRACT.test_an_answer_to_another_run_is_stale, Gullible(NPU)),
    "another program's answer": (CONTRACT.test_an_answer_of_another_program_is_wrong, Gullible(NPU)),
    "a damaged byte": (ON_THE_WAY, Gullible(NPU)),
    "no end": (CONTRACT.test_a_program_that_never_ends_is_a_timeout, Gullible(NPU)),
    "states that nobody checks": (STATES, Lax(NPU)),
    "another command line": (BOOTED, Deaf(NPU)),
    "a status that is lost": (BOOTED, Forgetful(NPU)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_target_is_seen(name: str, tmp_path: Path) -> None:
    test, board = BROKEN[name]
    given = {"board": board, "programs": contract_programs(NPU), "tmp_path": tmp_path}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(**{name: given[name] for name in inspect.signature(test).parameters})


def test_what_is_not_claimed_does_not_come_through(tmp_path: Path) -> None:
    NUMBERS(Claiming(Capability.SEMIHOSTING), contract_programs(NPU))
    CONTRACT.test_a_runner_answers_as_the_packed_image_does(Claiming(), contract_programs(NPU), tmp_path)


ANSWERS_TO_ELSE: tuple[tuple[Callable[[Outcome], dict[str, Any]], str], ...] = (
    (lambda answer: {"run_id": bytes(16)}, "belongs to another run: its id is 0000"),
    (lambda answer: {"program_hash": bytes(32)}, "is of another program"),
    (lambda answer: {"runs": answer.runs * 2}, r"answered with (\d+) of (?!\1)\d+ executions"),
    (lambda answer: {"runs": ()}, "answered with 0 of "),
    (lambda answer: {"runs": (Run(0, 0, ([1],), ()),) * len(answer.runs)}, "returned a list in place of an"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(("change", "words"), ANSWERS_TO_ELSE)
def test_an_answer_to_something_else_is_no_answer(change: Callable[[Outcome], dict[str, Any]], words: str) -> None:
    """Also of a target that looks at nothing itself."""

    class Saying(VirtualTarget):
        def _load(self, image: Image) -> None:
            pass

        def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
            runs = (Run(0, 0, (np.zeros(1),), ()),) * image.plan.executions
            answer = Outcome(image.run_id, image.image_hash, image.program_hash, 0, 0, {}, runs, (), {})
            return dataclasses.replace(answer, **change(answer))

    board = Saying(NPU)
    board.load(contract_programs(NPU)[0].image(board.soc))
    with pytest.raises(EthosHilError, match=words):
        board.run(timeout=1)


LEAKING = """
import subprocess, tempfile
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.contract import TargetContract
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.base.errors import EthosHilError

class Leaking(VirtualTarget):
    kept = []
    def _run(self, image, **options):
        outcome = super()._run(image, **options)
        {leak}
        return outcome

class TestLeaking(TargetContract):
    target, npu = "virtual", "ethos-u55-128"
    def make(self):
        return Leaking(self.npu)
"""


@pytest.fixture(scope="module")
def torch_stays() -> None:
    """Load what the programs need before `pytester` notes which modules there are.

    It drops those that come later, and torch, imported a second time into one process, corrupts its memory.
    """
    contract_programs(NPU)


@pytest.mark.usefixtures("torch_stays")
@pytest.mark.parametrize(
    ("leak", "says"),
    [
        ("self.kept.append(subprocess.Popen(['sleep', '20']))", "processes that are still there"),
        pytest.param("tempfile.mkstemp()", "temporary files that are still there", marks=pytest.mark.proof),
        pytest.param("self.kept.append(open('/dev/null'))", "is still open", marks=pytest.mark.proof),
        ("pass", None),
    ],
)
def test_what_is_left_behind(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, leak: str, says: str | None
) -> None:
    monkeypatch.setattr("ethos_hil.harness.targets.contract._ENDS_SECONDS", 0.5)
    pytester.makepyfile(LEAKING.format(leak=leak))
    result = pytester.runpytest_inprocess("-k", "cycles_and_operations", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=0 if says is None else 1)
    if says is not None:
        result.stdout.fnmatch_lines([f"*{says}*"])
