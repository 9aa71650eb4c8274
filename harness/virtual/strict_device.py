"""An Ethos-U's registers as a real part may have them, where the lenient `Device` forgives.

Each rule of `ethos_hil.harness.virtual.rules` that is about the NPU is a behaviour here, and a check. Facts about the
part come from Arm's core driver and its interface headers, and from the raw logs of an Ethos-U85 on an MPS4 that
Kwon-GiHwan/mps4_prototyping_board keeps: there, registers of the PMU were lost while CMD had its power bits set.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.npu import Extent
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.device import CYCLE_COUNTER, REGIONS, Device, JobEngine, NpuJob
from ethos_hil.harness.virtual.rules import Rule, RuleBroken

RESET_POLLS = 3
"""Reads of STATUS that a soft reset lasts."""
LINE_ACCESSES = 2
"""Register accesses after which the interrupt line follows a write that cleared it."""
_RESETTING = 1 << 3
_RUNNING, _IRQ_RAISED = 1 << 0, 1 << 1
_ENDING = 0xFFFF & ~_RUNNING
"""Bits of STATUS that are not set while a job runs."""
_POWER_MAY_GO = 1 << 3
"""CMD.power_q_enable."""
_NON_SECURE = 1 << 1
_ALIGNMENT = 16
_ALWAYS_ON = ("ID", "STATUS", "CMD", "RESET", "PROT", "CONFIG")
"""Registers that a program may use before it keeps the NPU's power on."""
_NEAR_WRAP = 64
_PORTS = {"SRAM": 0, "DDR": 1}
"""The AXI port that leads to a memory; to another one both may."""


class StrictDevice(Device):
    """A Device that keeps rules.

    Attributes:
        due: whether a job has been started whose end `finish` brings.
    """

    def __init__(
        self, configuration: EthosU, engine: JobEngine, soc: Soc, rules: Collection[Rule], seed: int = 0
    ) -> None:
        """Make the registers as they are when power comes.

        Args:
            configuration: the NPU's.
            engine: runs its jobs.
            soc: where its memories are.
            rules: those to keep.
            seed: of the random values that registers hold.
        """
        self._soc = soc
        self._rules = frozenset(rules)
        self._noise = random.Random(seed)
        self._polls_left = 0
        self._lag = 0
        self._spurious = False
        self._after: tuple[int, int] | None = None
        self._written: set[str] = set()
        super().__init__(configuration, engine)
        if Rule.NPU_RESET in self._rules:
            self._stored = {name: self._noise.getrandbits(32) & bits for name, bits in self._layout.stored.items()}

    @property
    def irq(self) -> bool:
        """Level of the interrupt line, which lags behind STATUS and may rise without a reason."""
        return super().irq or self._lag > 0 or self._spurious

    @property
    def due(self) -> bool:
        """Whether a job has been started whose end `finish` brings."""
        return self._after is not None

    def finish(self) -> None:
        """Bring the end of the job that takes time: its STATUS and QREAD."""
        if self._after is not None:
            self._status, self._queue_read = self._after
            self._after = None

    def read(self, offset: int) -> int:
        """Return a register, as `Device.read`. Raises RuleBroken too."""
        name = self._name(offset, "read")
        self._check_use(name, "read")
        value = super().read(offset)
        if name == "STATUS":
            self._spurious = False
            if self._polls_left:
                self._polls_left -= 1
                value |= _RESETTING
        self._lag = max(0, self._lag - 1)
        return value

    def write(self, offset: int, value: int) -> None:
        """Write a register, as `Device.write`. Raises RuleBroken too."""
        name = self._name(offset, "written")
        self._check_use(name, "written")
        raised = self._status & _IRQ_RAISED
        self._lag = max(0, self._lag - 1)
        super().write(offset, value)
        self._written.add(name)
        if Rule.NPU_TIME in self._rules and raised and not self._status & _IRQ_RAISED and name == "CMD":
            self._lag = LINE_ACCESSES

    def _check_use(self, name: str, verb: str) -> None:
        """Refuse the use of a register that the NPU may not have at the moment."""
        if name in _ALWAYS_ON:
            return
        if Rule.NPU_RESET in self._rules and self._polls_left:
            raise RuleBroken(Rule.NPU_RESET, f"the NPU register {name} is {verb} while STATUS says that it resets")
        if Rule.NPU_POWER in self._rules and self._power & _POWER_MAY_GO and not self._status & _RUNNING:
            raise RuleBroken(
                Rule.NPU_POWER,
                f"the NPU register {name} is {verb} while CMD.power_q_enable lets its power be removed: what it holds "
                "may be lost",
            )

    def _reset(self) -> None:
        """Do what a soft reset is known to do, and with the rule no more than that."""
        kept = self._stored
        super()._reset()
        self._after = None
        self._lag, self._spurious = 0, False
        if Rule.NPU_RESET in self._rules:
            self._polls_left = RESET_POLLS
            self._stored |= kept
        if Rule.NPU_COUNTERS in self._rules:
            enabled, overflows = self._noise.getrandbits(32), self._noise.getrandbits(32)
            self._pmu.disturb(enabled=enabled, overflows=overflows, below_wrap=_NEAR_WRAP)

    def _run(self) -> None:
        if Rule.NPU_RESET in self._rules:
            power = ("POWER_CTRL",) if "POWER_CTRL" in self._stored else ()
            self._check_written(("QBASE0", "QBASE1", "QSIZE", "QCONFIG", "REGIONCFG", *power, *self._count()))
        super()._run()
        if Rule.NPU_TIME in self._rules and not self._status & _RUNNING:
            size = self._stored["QSIZE"]
            self._after = self._status, self._queue_read
            self._status = self._status & ~_ENDING | _RUNNING
            self._queue_read = size // 2 if Rule.NPU_COUNTERS in self._rules else size
            self._spurious = True

    def _count(self) -> tuple[str, ...]:
        """Return the registers that say what the enabled counters of the PMU count."""
        if not self._pmu.enabled:
            return ("PMCR",)
        mask = self._pmu.mask
        events = (f"PMEVTYPER{i}" for i in range(self.configuration.family.event_counters) if mask >> i & 1)
        return ("PMCR", "PMCNTENCLR", *(("PMCCNTR_CFG",) if mask & CYCLE_COUNTER else ()), *events)

    def _check_written(self, names: Collection[str]) -> None:
        missing = [name for name in names if name not in self._written]
        if missing:
            raise RuleBroken(
                Rule.NPU_RESET,
                f"CMD starts a job that uses {', '.join(missing)}, which the program never wrote: no source says that "
                "a reset clears it",
            )

    def _job(self) -> NpuJob:
        return dataclasses.replace(super()._job(), examine=self._examine)

    def _examine(self, extents: Mapping[int, Extent]) -> None:
        """Check the memories that a job uses. Raises RuleBroken."""
        stored = self._stored
        used = {"the command stream": (stored["QBASE0"] | stored["QBASE1"] << 32, stored["QCONFIG"])}
        for region in sorted(extents):
            if region < REGIONS:
                base = stored[f"BASEP{2 * region}"] | stored[f"BASEP{2 * region + 1}"] << 32
                used[f"region {region}"] = base, stored["REGIONCFG"] >> 2 * region & 3
        if Rule.NPU_RESET in self._rules:
            regions = [f"BASEP{2 * region + half}" for region in sorted(extents) if region < REGIONS for half in (0, 1)]
            ports = [name for _, selector in used.values() for name in self._layout.port_registers(selector)]
            self._check_written(tuple(dict.fromkeys((*regions, *ports))))
        for what, (address, selector) in used.items():
            if Rule.NPU_SECURITY in self._rules:
                self._check_security(what, address)
            if Rule.NPU_PORT in self._rules:
                self._check_port(what, address, self._layout.port(stored, selector))

    def _check_security(self, what: str, address: int) -> None:
        secure = not self._protection & _NON_SECURE
        if bool(address & self._soc.secure_bit) != secure:
            word, other = ("secure", "non-secure") if secure else ("non-secure", "secure")
            raise RuleBroken(
                Rule.NPU_SECURITY, f"{what} of a job is at 0x{address:08x}, a {other} address, and the NPU is {word}"
            )
        if address % _ALIGNMENT:
            raise RuleBroken(
                Rule.NPU_SECURITY, f"{what} of a job is at 0x{address:08x}, which is not a multiple of {_ALIGNMENT}"
            )

    def _check_port(self, what: str, address: int, port: int) -> None:
        memory = self._soc.memory_at(address)
        expected = None if memory is None else _PORTS.get(memory.name)
        if memory is not None and expected is not None and port != expected:
            raise RuleBroken(
                Rule.NPU_PORT,
                f"{what} of a job is in {memory.name}, behind port {expected}, and is reached through port {port}",
            )
