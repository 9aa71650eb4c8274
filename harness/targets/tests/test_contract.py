"""Every target of ours keeps the contract, and the contract notices targets that break it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

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
LISTS = Run(0, 0, ([1],), ())  # type: ignore[arg-type]


def is_red(test: Callable[..., None], board: Target, *more: object) -> None:
    """The test, given the board, fails."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(board, contract_programs(NPU), *more)


class Changing(VirtualTarget):
    """Brings back something else than came."""

    def __init__(
        self,
        run: Callable[[Run], Run] = lambda run: run,
        call: Callable[[DelegateRun], DelegateRun] = lambda call: call,
    ) -> None:
        super().__init__(NPU)
        self._change_run = run
        self._change_call = call

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        outcome = super()._run(image, timeout=timeout, progress=progress)
        return dataclasses.replace(outcome, runs=tuple(map(self._changed, outcome.runs)))

    def _changed(self, run: Run) -> Run:
        delegates = tuple(map(self._change_call, run.delegates))
        return self._change_run(dataclasses.replace(run, delegates=delegates))


def off_by_one(outputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    first = outputs[0].copy()
    first.flat[0] += 1
    return first, *outputs[1:]


def test_a_wrong_output() -> None:
    test = CONTRACT.test_answers_of_the_whole_plan_equal_the_reference
    is_red(test, Changing(lambda run: dataclasses.replace(run, outputs=off_by_one(run.outputs))))
    is_red(test, Changing(call=lambda call: dataclasses.replace(call, outputs=off_by_one(call.outputs))))
    is_red(test, Changing(lambda run: dataclasses.replace(run, delegates=())))


def test_runs_in_another_order() -> None:
    swapped = Changing(lambda run: dataclasses.replace(run, repeat=1 - run.repeat))
    is_red(CONTRACT.test_answers_of_the_whole_plan_equal_the_reference, swapped)


def test_numbers_that_are_claimed_and_not_there() -> None:
    test = CONTRACT.test_cycles_and_operations_are_there_if_and_only_if_they_are_claimed
    is_red(test, Changing(call=lambda call: dataclasses.replace(call, cycles=0)))
    is_red(test, Changing(call=lambda call: dataclasses.replace(call, op_events=())))
    is_red(test, Changing(call=lambda call: dataclasses.replace(call, cycles=call.cycles + 1)))
    is_red(test, Changing(call=lambda call: dataclasses.replace(call, op_events=call.op_events[::-1])))


def test_numbers_that_are_not_claimed_do_not_come_through() -> None:
    class Modest(VirtualTarget):
        def capabilities(self) -> frozenset[Capability]:
            return frozenset({Capability.SEMIHOSTING})

    CONTRACT.test_cycles_and_operations_are_there_if_and_only_if_they_are_claimed(Modest(NPU), contract_programs(NPU))


def test_capabilities_that_contradict_one_another_or_the_plugin() -> None:
    class Claiming(VirtualTarget):
        def __init__(self, *able: Capability) -> None:
            super().__init__(NPU)
            self._able = frozenset(able)

        def capabilities(self) -> frozenset[Capability]:
            return self._able

    for able in ((Capability.NPU_CYCLES,), (Capability.OP_EVENTS, Capability.STAYS_UP)):
        with pytest.raises(AssertionError):
            CONTRACT.test_its_capabilities_fit_together(Claiming(*able))


def test_another_kind_than_the_plugins() -> None:
    for name, value in (("kind", "board"), ("soc", "soc"), ("npu", "ethos-u55-64"), ("cycle_provenance", "guessed")):
        board = VirtualTarget(NPU)
        setattr(board, name, value)
        with pytest.raises(AssertionError):
            CONTRACT.test_it_is_what_its_plugin_says(board)


def test_an_answer_that_is_kept_for_the_next_run() -> None:
    class Remembering(VirtualTarget):
        last: Outcome | None = None

        def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
            self.last = self.last or super()._run(image, timeout=timeout, progress=progress)
            return self.last

    with pytest.raises(TargetError, match="belongs to another run"):
        CONTRACT.test_one_run_knows_nothing_of_another(Remembering(NPU), contract_programs(NPU))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda answer: dataclasses.replace(answer, run_id=bytes(16)), "belongs to another run: its id is 0000"),
        (lambda answer: dataclasses.replace(answer, program_hash=bytes(32)), "is of another program"),
        (
            lambda answer: dataclasses.replace(answer, runs=answer.runs * 2),
            r"answered with (\d+) of (?!\1)\d+ executions",
        ),
        (lambda answer: dataclasses.replace(answer, runs=()), "answered with 0 of "),
        (
            lambda answer: dataclasses.replace(answer, runs=(LISTS,) * len(answer.runs)),
            "returned a list in place of an",
        ),
    ],
)
def test_an_answer_to_something_else_is_no_answer(change: Callable[[Outcome], Outcome], words: str) -> None:
    """Also of a target that looks at nothing itself."""

    class Saying(VirtualTarget):
        def _load(self, image: Image) -> None:
            pass

        def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
            runs = (Run(0, 0, (np.zeros(1),), ()),) * image.plan.executions
            return change(Outcome(image.run_id, image.image_hash, image.program_hash, 0, 0, {}, runs, (), {}))

    board = Saying(NPU)
    board.load(contract_programs(NPU)[0].image(board.soc))
    with pytest.raises(EthosHilError, match=words):
        board.run(timeout=1)


def test_an_echo_that_nobody_compares() -> None:
    """It takes the image's word for the device's, as one that does not read HELLO."""

    class Gullible(VirtualTarget):
        def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
            try:
                return super()._run(image, timeout=timeout, progress=progress)
            except TargetError:
                return Outcome(image.run_id, image.image_hash, image.program_hash, 0, 0, {}, (), (), {})

    for test in (
        CONTRACT.test_an_answer_to_another_run_is_stale,
        CONTRACT.test_an_answer_of_another_program_is_wrong,
        CONTRACT.test_a_byte_that_is_damaged_on_the_way_to_the_device_is_noticed,
        CONTRACT.test_a_program_that_never_ends_is_a_timeout,
    ):
        is_red(test, Gullible(NPU))


def test_states_that_nobody_checks(tmp_path: Path) -> None:
    class Lax(VirtualTarget):
        def _expect(self, method: str, state: object) -> None:
            pass

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        CONTRACT.test_methods_are_refused_in_a_state_they_are_not_for(Lax(NPU), contract_programs(NPU), tmp_path)


def test_a_booted_program_that_is_told_something_else_or_whose_status_is_lost(tmp_path: Path) -> None:
    class Deaf(VirtualTarget):
        def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
            return super()._boot(elf, command_line.replace("absent", "other"), folder, timeout=timeout)

    class Forgetful(VirtualTarget):
        def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
            return dataclasses.replace(super()._boot(elf, command_line, folder, timeout=timeout), status=0)

    for board in (Deaf(NPU), Forgetful(NPU)):
        with pytest.raises(AssertionError):
            CONTRACT.test_a_booted_program_gets_its_command_line_and_gives_its_status(board, tmp_path)


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
