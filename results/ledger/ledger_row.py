"""A row of the ledger: cycles of one operation, or of a whole network, by everybody who says how many there are."""

from __future__ import annotations

from dataclasses import dataclass

NETWORK = "network"
"""The class of a row for a whole program."""
COUNTED = ("measured", "fvp")
"""Provenances of counts, the more real first: what estimates are held against."""
NUMBERS = ("vela_op", "vela_npu", "modelled", "fvp", "measured")
"""The cycles that a row may have."""
LIMIT = 1 << 63
"""A number from here on is not one of cycles: no counter counts so far."""
SEVERAL = "several"
"""The rule of operations that share a count and not a rule."""


@dataclass(frozen=True)
class LedgerRow:
    """Cycles of one execution. A number that is not known is None.

    Attributes:
        operation: its class (`ethos_hil.results.ledger.record_rows`), or `NETWORK`.
        case: the test, model or case of a benchmark.
        row: ids of the rows in the record whose cycles these are, joined by "+"; "" for a network.
        name: the NPU operations, joined by "+"; "" for a network.
        npu, memory_mode, system_config: what it was compiled for.
        question: digest of what was asked; `stream` of the command streams. Rows of one stream are of one program.
        vela_op: Vela's estimate with the memories; `vela_npu` without them.
        modelled: cycles by the timing model that `timing_model` is the id of.
        fvp, measured: what an FVP or a board counted.
        counter: what counted: "cycles", or "npu_active" where an FVP's cycle counter is coarser than that event.
        rule: the timing model's rule that decides `modelled`; "" where none is known.
        method: how a row's count was found: "shares", "prefix" or "pmu-trace"; "" for a network.
        target: the FVP's or board's name; "" where nothing was counted.
        simulator: what the FVP says of its version.
        vela, firmware: their version, and the digest of the firmware that ran.
        timing_adapters: see `ethos_hil.base.record.Record`.
        clock_hz: the NPU's clock in the system configuration; 0 where it is not known.
        samples: executions that were counted; `spread` is how far they are apart.
        source: a link or file, where it was published and not counted by us.
        held_out: whether the timing model was fitted without it, and it is published to judge that.
        created: when it was counted or modelled (UTC, ISO 8601).
    """

    operation: str
    case: str
    npu: str
    row: str = ""
    name: str = ""
    memory_mode: str = ""
    system_config: str = ""
    question: str = ""
    stream: str = ""
    vela_op: int | None = None
    vela_npu: int | None = None
    modelled: int | None = None
    fvp: int | None = None
    measured: int | None = None
    counter: str = ""
    rule: str = ""
    method: str = ""
    target: str = ""
    simulator: str = ""
    vela: str = ""
    firmware: str = ""
    timing_adapters: str = ""
    timing_model: str = ""
    clock_hz: float = 0.0
    samples: int = 0
    spread: int = 0
    source: str = ""
    held_out: bool = False
    created: str = ""

    @property
    def reference(self) -> int | None:
        """What estimates are held against: the board's count, else the FVP's. None where no one counted."""
        return self.measured if self.measured is not None else self.fvp

    @property
    def provenance(self) -> str:
        """The provenance of `reference`; "" where there is none."""
        return next((name for name in COUNTED if getattr(self, name) is not None), "")

    @property
    def family(self) -> str:
        """The NPU without its number of MACs: "ethos-u85"."""
        return self.npu.rpartition("-")[0] or self.npu

    @property
    def comparable(self) -> bool:
        """Whether it has two numbers to compare."""
        return sum(getattr(self, name) is not None for name in NUMBERS) > 1
