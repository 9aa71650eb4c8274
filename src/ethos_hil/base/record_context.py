"""What a record belongs to: a suite's test, a point of a benchmark, a run."""

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
        warm_up: executions at the start that do not count.
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
