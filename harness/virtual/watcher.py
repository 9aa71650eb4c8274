"""Watches what a program does, by a plug-in of QEMU (watcher.c), for the strict board's rules about the processor.

Both sides map one file: this one says which addresses are what, the plug-in writes the first breaches of a rule there.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.socs.soc import Memory, Soc
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.mps3_an547 import RAMS, UART0
from ethos_hil.harness.virtual.plugin import Plugin, PluginState
from ethos_hil.harness.virtual.rules import Rule

WATCHED = {Rule.TCM_ECC: 1, Rule.UART: 2, Rule.BUS: 4, Rule.PART_MEMORIES: 8, Rule.RESET_STATE: 16}
"""The rules that the plug-in checks, and their bits there."""
_MISSING, _READ_ONLY, _TCM, _SECOND_TCM = 1, 2, 4, 8
_PAGE, _PAGES = 1 << 12, 1 << 18
_TCM_RAMS = tuple(ram for ram in RAMS if ram.name in ("ITCM", "DTCM"))
TCMS = tuple(ram.base for ram in _TCM_RAMS)
"""Where QEMU has its ITCM and its DTCM, for secure code."""
TCM_BYTES = _TCM_RAMS[0].size
"""Of each."""
_NO_UART = 0xFFFFF000
_MOST_BREACHES = 8
_STORE = 1 << 8
_BREACH = np.dtype([("kind", "<u4"), ("pc", "<u4"), ("address", "<u4"), ("access", "<u4")])
_STATE = np.dtype(
    [
        ("rules", "<u4"),
        ("breaches", "<u4"),
        ("uart", "<u4"),
        ("core", "<u4"),
        ("uart_bases", "<u4", 2),
        ("tcm_hosts", "<u8", 2),
        ("breach", _BREACH, _MOST_BREACHES),
        ("pages", "u1", _PAGES),
        ("written", "u1", (2, TCM_BYTES // 4)),
        ("initial", "u1", (2, TCM_BYTES)),
    ]
)
"""`struct State` of watcher.c."""
_CAN_SEND = 1
"""STATE_READ: a UART that was reset has room for a byte."""
_KINDS = {
    1: (Rule.BUS, "{access} is not aligned, and this is Device memory"),
    2: (Rule.BUS, "{access} is more than a word, and this is Device memory"),
    3: (Rule.BUS, "{access} is exclusive, and this is Device memory"),
    4: (Rule.BUS, "{access}, and this is Device memory"),
    5: (Rule.TCM_ECC, "{access}, where nothing was written since the TCM has power: its ECC is not valid"),
    6: (
        Rule.TCM_ECC,
        "{access} is a part of a word that was not written since the TCM has power: its ECC is not valid",
    ),
    7: (Rule.PART_MEMORIES, "{access}, where this system has no memory"),
    8: (Rule.PART_MEMORIES, "{access}, where this system's memory is read-only"),
    9: (Rule.UART, "{access} is a byte for the UART, and STATE was not read since the last one: it may be lost"),
    10: (Rule.UART, "{access} is a byte for the UART before it was set up (CTRL and BAUDDIV)"),
    11: (
        Rule.RESET_STATE,
        "a floating-point or MVE instruction is executed before CPACR and CPDLPSTATE (0xE001E300) allow it",
    ),
}


@dataclass(frozen=True)
class Breach:
    """What broke a rule first: the rule, what was done, and the address of the instruction."""

    rule: Rule
    what: str
    pc: int


class Watcher(PluginState):
    """The plug-in's file, while a QEMU with it lives.

    Attributes:
        plugin: to start QEMU with.
    """

    def __init__(self, soc: Soc, rules: Collection[Rule], fittings: Fittings) -> None:
        """Prepare to watch a program on a board. Raises OSError."""
        super().__init__("watcher", _STATE.itemsize)
        self._state = np.frombuffer(self._map, _STATE, 1)
        self.plugin = Plugin("watcher", "the strict board watches the program", state=self._file)
        self._state["rules"] = sum(bit for rule, bit in WATCHED.items() if rule in rules)
        self._state["uart_bases"] = UART0.bases if fittings.machine_uart else (_NO_UART, _NO_UART)
        self._state["pages"][0][:] = _pages(soc, rules)

    @property
    def ecc(self) -> bool:
        """Whether it looks at what was written to the TCMs."""
        return bool(int(self._state["rules"][0]) & WATCHED[Rule.TCM_ECC])

    def begin(self) -> None:
        """Forget the last program, before the next one starts."""
        for name in ("breaches", "core"):
            self._state[name] = 0
        self._state["uart"] = _CAN_SEND

    def set_tcm(self, which: int, host: int, contents: bytes) -> None:
        """Say where a TCM is in QEMU's process, and what it holds at the start."""
        self._state["tcm_hosts"][0][which] = host
        self._state["initial"][0][which] = np.frombuffer(contents, np.uint8)

    def power_up(self) -> None:
        """Let no word of the TCMs be written."""
        self._state["written"] = 0

    def note_write(self, address: int, size: int) -> None:
        """Let bytes at a secure address have been written by whoever loaded the program."""
        for which, base in enumerate(TCMS):
            begin, end = max(address - base, 0), min(address + size - base, TCM_BYTES)
            if begin < end:
                self._state["written"][0][which][begin // 4 : -(-end // 4)] = 1

    def breach(self) -> Breach | None:
        """Return the first breach since `begin`, or None."""
        if not int(self._state["breaches"][0]):
            return None
        kind, pc, address, access = (int(value) for value in self._state["breach"][0][0])
        rule, what = _KINDS[kind]
        verb = "stored to" if access & _STORE else "loaded from"
        size = access & (_STORE - 1)
        done = f"{size} byte{'s' * (size != 1)} {verb} 0x{address:08x}" if size else f"0x{address:08x} is executed"
        return Breach(rule, what.format(access=done), pc)

    def close(self) -> None:
        """Give the file back. May be called again."""
        if self._file >= 0:
            del self._state  # it uses the map
        super().close()


def watcher(soc: Soc, rules: Collection[Rule], fittings: Fittings) -> Watcher | None:
    """Return what watches for `rules`, or None where none of them needs it."""
    return Watcher(soc, rules, fittings) if any(rule in WATCHED for rule in rules) else None


def _pages(soc: Soc, rules: Collection[Rule]) -> np.ndarray:
    """Return what each page below 0x40000000 is."""
    pages = np.zeros(_PAGES, np.uint8)
    if Rule.PART_MEMORIES in rules:
        for ram in RAMS:
            _mark(pages, ram, _MISSING)
        for memory in soc.memories:
            _mark(pages, memory, 0)
            if memory.read_only:
                _mark(pages, memory, _READ_ONLY)
    if Rule.TCM_ECC in rules:
        for which, base in enumerate(TCMS):
            for memory in soc.memories:
                if memory.base == base:
                    _mark(pages, memory, _TCM | _SECOND_TCM * which)
    return pages


def _mark(pages: np.ndarray, memory: Memory, kind: int) -> None:
    for base in memory.bases:
        part = pages[base // _PAGE : (base + memory.size) // _PAGE]
        part[:] = kind if kind in (0, _MISSING) else part | kind
