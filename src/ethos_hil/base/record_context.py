"""What a record belongs to: a suite's test, a point of a benchmark, a run, a board."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SuiteTest:
    """The suite's test that a record belongs to.

    Attributes:
        id: pytest's id: "suites/ops/test_elementwise.py::test_add_same_U55_BI".
        operator, case, profile: "add", "same", "U55_BI".
        source: where the case is declared, "suites/ops/test_elementwise.py:13".
        defect: the issue upstream, or the place in this repository, of the defect that it fails for, as it declares;
            "" where it declares none or fails otherwise.
    """

    id: str
    operator: str
    case: str
    profile: str
    source: str
    defect: str = ""


@dataclass(frozen=True)
class BenchInfo:
    """The point of a benchmark's grid that a record belongs to. NPU, memory mode, system and target are the record's.

    Attributes:
        grid: the grid's name: "default", or that of the user's file.
        case: the case's name, unique in its grid.
        group: what it is a case of, "conv3x3": points of a group are compared with one another.
        tags: of the case: "short" or "long", and the user's own.
        source: where the case is declared, "grid.toml:12".
        warm_up: executions at the start that do not count; only in records of earlier versions.
    """

    grid: str
    case: str
    group: str
    tags: tuple[str, ...] = ()
    source: str = ""
    warm_up: int = 0


@dataclass(frozen=True)
class RunInfo:
    """The run that a record belongs to.

    Attributes:
        name: of its run folder.
        commit: of the git work tree that it was started in, "" where there is none.
        dirty: whether that tree had changes.
        shard: which part of the tests this process's machine ran, "2/4"; "" for all.
        part: which part of a nightly's plan asked for it (docs/nightly.md); "" outside a nightly.
        attempt: which attempt it is: 2 where the first one could not be made, and was repeated.
        job: the CI's job, by its number or address; "" outside a CI.
        planned: digest of the planned question that it answers, which a campaign that is resumed looks for; "" where
            pytest ran it, and outside a campaign.
    """

    name: str
    commit: str = ""
    dirty: bool = False
    shard: str = ""
    part: str = ""
    attempt: int = 1
    job: str = ""
    planned: str = ""


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
