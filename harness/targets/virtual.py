"""The virtual Corstone as a target: QEMU with the functional NPU. No licence, no board, no cycle accuracy."""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Callable, Collection
from pathlib import Path

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import LinkError, TargetError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.image.segments import ElfError, segments
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.console_text import ConsoleText
from ethos_hil.harness.link.outcome import Ended, OpEvent, Outcome, Progress, Run
from ethos_hil.harness.npu import Execution
from ethos_hil.harness.npu.timing.memory_system import memory_system
from ethos_hil.harness.socs.registry import SOCS, find_soc, virtual_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.base import Capability, Target, silence
from ethos_hil.harness.targets.executor_runner import TELLING
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin, TargetSettings, lacking
from ethos_hil.harness.virtual.board import BoardPool, QemuBoard, new_board
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.guest_files import Semihosting
from ethos_hil.harness.virtual.machine import EngineFactory, Exit, Machine
from ethos_hil.harness.virtual.mps3_an547 import memory_needed, missing
from ethos_hil.harness.virtual.qemu import equipped_qemu, find_qemu
from ethos_hil.harness.virtual.rules import FOREIGN_BOARD, STRICT_BOARD, Rule
from ethos_hil.lowering.vela.ini import SystemConfiguration


def boot(
    elf: bytes,
    semihosting: Semihosting,
    configuration: EthosU,
    soc: Soc,
    timeout: float,
    *,
    engine: EngineFactory,
    strict: bool = False,
    memories: MemorySystem | None = None,
    rules: Collection[Rule] = (),
) -> Ended:
    """Run a program to its end. The result has the text of its UART and its console as one, as an FVP shows it.

    Args:
        elf: the program.
        semihosting: the answers to its calls.
        configuration: the NPU's.
        soc: the system on chip.
        timeout: wall seconds.
        engine, strict, memories: see `Machine`.
        rules: of the strict board.

    Raises:
        UsageError: it is not an ELF that this board can run.
        TargetError: it did not end by itself.
        TargetNotAvailable: QEMU is missing.
    """
    file = io.BytesIO(elf)
    try:
        loaded = segments(file)
    except ElfError as error:
        raise UsageError(
            f"the runner cannot be run: {error}", hint="give an ELF for a Cortex-M of this board"
        ) from error
    for segment in loaded:
        for address, size in segment.places:
            why = missing(address, size, soc) if size else None
            if why is not None:
                raise UsageError(f"the runner has {size} bytes at 0x{address:08x}: {why}", hint="use another target")
    console = ConsoleText(TELLING)
    deadline = Deadline(timeout)
    answered = semihosting.find_calls(file, loaded)
    places = [place for part in loaded for place in part.places]
    fittings = Fittings.of(soc, rules, foreign=True)
    qemu = equipped_qemu(soc, rules, fittings, elf, semihosting=semihosting, added=memory_needed(places, soc))
    board = QemuBoard(soc, qemu, rules=rules, fittings=fittings, foreign=True)
    with Machine(
        board, configuration, deadline, engine=engine, strict=strict, memories=memories, answered=answered
    ) as machine:
        try:
            while not isinstance(event := machine.wait(), Exit):
                console.write(event.uart + event.console)
        except TimeoutError as error:
            where = machine.where() or "an unknown place"
            raise TargetError(
                f"no end within {timeout:.3g} s: the program is in {where}",
                kind=FailureKind.TIMEOUT,
                console=console.lines() + _refusals(machine),
            ) from error
        except TargetError as error:
            left = machine.read_output()
            if left is not None:
                console.write(left.uart + left.console)
            fault = machine.device.fault
            hint = error.hint
            if fault is not None and hint is None:
                hint = f"the NPU had stopped with a {fault.message}"
            raise error.replace(console=console.lines() + _refusals(machine), hint=hint) from error.__cause__
        left = machine.read_output()
        if left is not None:
            console.write(left.uart + left.console)
        return Ended(event.status, console.lines() + _refusals(machine))


def _refusals(machine: Machine) -> tuple[str, ...]:
    """Return what the program did not get, as lines of the console."""
    return tuple(f"semihosting: {refusal}" for refusal in machine.refusals)


Wire = Callable[[bytes], bytes]
"""A function that gets each piece of the UART's output, and returns what is read in its place."""


class VirtualTarget(Target):
    """A system of harness/socs with one of its NPUs: a Corstone-300 with an Ethos-U55 or U65, for example.

    Cycle counts are modelled (harness/npu/timing/timing_model.py).
    """

    name = "virtual"
    kind = "virtual"
    cycle_provenance = "modelled"
    cpu_unit = "instructions"

    def __init__(
        self,
        npu: str,
        *,
        strict: bool = False,
        pool: BoardPool | None = None,
        soc: Soc | str | None = None,
        engine: EngineFactory = Engine,
        wire: Wire = bytes,
        rules: Collection[Rule] = (),
        fittings: Fittings | None = None,
    ) -> None:
        """Make a board with `npu`, e.g. "ethos-u55-128".

        Args:
            npu: name of its configuration.
            strict: fail on command streams that lack a wait.
            pool: where boards wait for their next run; without one every run starts a board and ends it.
            soc: the system on chip, or its name; by default the first one of harness/socs that has the NPU.
            engine: makes the engine that runs the NPU's jobs, for each run; by default the functional model.
            wire: gets what the board sends before it is read, to keep or to change it.
            rules: of the strict board, that the program must keep.
            fittings: the board's devices; by default those that the rules ask for.

        Raises:
            UsageError: the functional model can't be that NPU, or the system cannot have it; says which it can be.
            ToolError: no system has that name.
        """
        self._configuration = EthosU.parse(npu)
        self._soc = virtual_soc(npu) if soc is None else find_soc(soc) if isinstance(soc, str) else soc
        if not self._soc.virtual:
            known = ", ".join(soc.name for soc in SOCS if soc.virtual)
            raise UsageError(
                f"the virtual board cannot be {self._soc.name}: QEMU has no machine with its memories",
                hint=f"use one of {known}; a board is --target board:NAME",
            )
        if npu not in self._soc.npu_names:
            names = ", ".join(self._soc.npu_names)
            raise UsageError(f"the virtual {self._soc.name} cannot have an {npu}", hint=f"use one of {names}")
        self.soc = self._soc.name
        self.npu = npu
        self._strict = strict
        self._pool = pool
        self._engine = engine
        self._wire = wire
        self._rules = frozenset(rules)
        self._fittings = fittings
        self._machine: Machine | None = None
        self._memories: MemorySystem | None = None

    def compiled_for(self, system: SystemConfiguration | None) -> bool:
        """Model the cycles of the next runs with the memories of this system."""
        self._memories = None if system is None else memory_system(system, self._configuration.family)
        return system is not None

    def capabilities(self) -> frozenset[Capability]:
        """Return all of them: its cycles are modelled, and it sees every operation."""
        return frozenset({Capability.NPU_CYCLES, Capability.OP_EVENTS, Capability.SEMIHOSTING, Capability.STAYS_UP})

    def rules(self, *, foreign: bool) -> tuple[str, ...]:
        """Return the strict board's."""
        return tuple(sorted(self._rules & FOREIGN_BOARD if foreign else self._rules))

    def _load(self, image: Image) -> None:
        find_qemu()

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        """Run the image. QEMU is ended and reaped in any case, but stays up in the pool after a complete run."""
        started = time.perf_counter()
        seconds: dict[str, float] = {}
        collector = Collector(image, progress)
        try:
            deadline = Deadline(timeout)
            take = new_board if self._pool is None else self._pool.take
            seed = int.from_bytes(image.image_hash[:4], "little")
            fittings = self._fittings or Fittings.of(self._soc, self._rules)
            if image.plan.time_steps:
                fittings = dataclasses.replace(fittings, cycle_counter=True)
            board = take(self._soc, image.elf, rules=self._rules, fittings=fittings, seed=seed)
            self._machine = Machine(
                board, self._configuration, deadline, engine=self._engine, strict=self._strict, memories=self._memories
            )
            while not collector.complete:
                collector.feed(self._wire(self._machine.output()))
                if collector.started:
                    seconds.setdefault("launch", time.perf_counter() - started)
            self._machine.check_rules()
            collector.close()
            engine = self._machine.engine
            seconds["npu"] = engine.seconds if isinstance(engine, Engine) else 0.0
            executions = engine.executions if isinstance(engine, Engine) else []
            outcome = collector.outcome(seconds)
            outcome = dataclasses.replace(outcome, runs=_with_op_events(outcome.runs, executions))
            self._keep_board()
        except TimeoutError as error:
            raise self._timeout_error(collector, timeout) from error
        except TargetError as error:
            raise self._explain(error, collector) from error.__cause__
        return dataclasses.replace(outcome, seconds=seconds | {"total": time.perf_counter() - started})

    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        find_qemu()
        semihosting = Semihosting(command_line, folder)
        return boot(
            elf,
            semihosting,
            self._configuration,
            self._soc,
            timeout,
            engine=self._engine,
            strict=self._strict,
            memories=self._memories,
            rules=self._rules & FOREIGN_BOARD,
        )

    def _reset(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.stop()

    def _keep_board(self) -> None:
        """Give the board to the pool, after a run that ended well."""
        if self._pool is None or self._machine is None:
            return
        board = self._machine.release()
        self._machine = None
        if board is not None:
            self._pool.give(board)

    def _timeout_error(self, collector: Collector, timeout: float) -> TargetError:
        if collector.failure is not None:
            return self._explain(collector.failure, collector)
        assert self._machine is not None
        where = self._machine.where()
        state = f"the guest is in {where}" if where is not None else "QEMU does not answer"
        silent = not (collector.started or collector.unfinished or collector.console)
        return collector.timeout_error(timeout, state, silence(self._soc) if silent else "")

    def _explain(self, error: TargetError, collector: Collector) -> TargetError:
        """Return `error` with the console, and with the NPU's fault where there is one."""
        if self._machine is not None and error.kind == FailureKind.CRASHED:
            # The guest's last words say more than the crash, even when they are incomplete.
            try:
                collector.feed(self._wire(self._machine.drain()))
                collector.close()
            except TargetError as end:
                if collector.failure is not None:
                    error = end
        hint = error.hint
        fault = self._machine.device.fault if self._machine is not None else None
        if fault is not None and error.kind == FailureKind.FAULT and hint is None:
            hint = f"the NPU stopped with a {fault.message}"
        return error.replace(console=collector.console, hint=hint)


def _with_op_events(runs: tuple[Run, ...], executions: list[Execution]) -> tuple[Run, ...]:
    """Return `runs` with the operations of each delegate call. Jobs and COUNTERS frames come in the same order."""
    calls = sum(len(call.prefixes) + 1 for run in runs for call in run.delegates)
    if calls != len(executions):
        raise LinkError(f"the NPU ran {len(executions)} jobs, the device reports {calls}")
    remaining = iter(executions)
    complete = []
    for run in runs:
        delegates = []
        for call in run.delegates:
            for cycles in (*(prefix.cycles for prefix in call.prefixes), call.cycles):
                execution = next(remaining)
                if cycles != execution.cycles:
                    raise LinkError(
                        f"instruction {call.instruction}: the device reports {cycles} cycles, the NPU counted "
                        f"{execution.cycles}"
                    )
            events = tuple(OpEvent(op.offset, op.name, op.cycles, op.begin, op.end) for op in execution.ops)
            delegates.append(dataclasses.replace(call, op_events=events))
        complete.append(dataclasses.replace(run, delegates=tuple(delegates)))
    return tuple(complete)


def _make(npu: EthosU, settings: TargetSettings) -> VirtualTarget:
    return VirtualTarget(
        npu.name, strict=settings.strict, pool=settings.pool, rules=STRICT_BOARD if settings.strict_board else ()
    )


PLUGIN = TargetPlugin(
    name="virtual",
    kind="virtual",
    description="QEMU with a functional NPU",
    socs=tuple(soc.name for soc in SOCS if soc.virtual),
    npus=tuple(dict.fromkeys(name for soc in SOCS if soc.virtual for name in soc.npu_names)),
    make=_make,
    find=lambda npu: lacking(find_qemu),
    options=frozenset({TargetOption.STRICT, TargetOption.STRICT_BOARD, TargetOption.POOL}),
)
