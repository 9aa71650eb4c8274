"""How a program came onto a board, and what is known of the board."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BoardRun:
    """What a record has of a board, apart from its name.

    Attributes:
        probe: serial number of its debug probe; "" where its file states none.
        server: what speaks for the probe: "pyocd", "openocd", "jlink", "probe-rs", "running" or "none".
        link: URL of its serial line.
        baud: bits per second of the line while the program ran.
        cpu_hz: clock of its processor, as the firmware reports it.
        npu_hz: clock of its NPU, as its file states it; 0 where that is not known.
        loaded: whether the firmware was loaded for this run; otherwise it was there already.
        load_seconds: wall time of that, with reset and reading back; 0.0 where it was not loaded.
        upload_bytes: of the package.
        upload_seconds: wall time until all of it was there.
        sent_again: bytes of the package that were sent more than once.
        damaged: frames that arrived damaged, at either end.
        lost: bytes that the board's UART says it lost.
        untried: values of the board's file that no one is known to have tried on a real board.
        simulated: whether it is a program, whose cycles are modelled.
    """

    probe: str = ""
    server: str = "none"
    link: str = ""
    baud: int = 0
    cpu_hz: int = 0
    npu_hz: int = 0
    loaded: bool = False
    load_seconds: float = 0.0
    upload_bytes: int = 0
    upload_seconds: float = 0.0
    sent_again: int = 0
    damaged: int = 0
    lost: int = 0
    untried: int = 0
    simulated: bool = False
