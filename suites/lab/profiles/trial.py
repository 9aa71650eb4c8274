"""One network on one NPU: what prefixes find against what the model of time gives each operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict


@dataclass(frozen=True)
class Moved:
    """Rows that follow one another, whose cycles are the same together and not one by one.

    Attributes:
        rows: their ids.
        shares, prefixes: the cycles of each.
        merged: whether the stream cannot be cut between them. Otherwise a transfer outlasts the kernel beside it: a
            prefix ends with the transfer, the model gives its end to the row that runs then.
    """

    rows: tuple[str, ...]
    shares: tuple[int, ...]
    prefixes: tuple[int, ...]
    merged: bool


@dataclass(frozen=True)
class ProfileTrial:
    """The end of a trial.

    Attributes:
        network: its name.
        npu: the NPU.
        rows: operations on the NPU.
        cycles: of the NPU in one inference.
        moved: rows that are not equal one by one.
        problem: what is wrong, or "".
        refused: why the network does not run on this NPU, or "".
    """

    network: str
    npu: str
    rows: int = 0
    cycles: int = 0
    moved: tuple[Moved, ...] = ()
    problem: str = ""
    refused: str = ""


def compared(network: str, shares: Record, prefixes: Record) -> ProfileTrial:
    """Compare the two profiles of a network."""
    rows, cut = ([op for op in record.ops if op.id != JOB] for record in (shares, prefixes))
    total = sum(op.cycles or 0 for op in rows)
    problem = next(_problems(shares, prefixes), "")
    moved: list[Moved] = []
    if not problem:
        for piece in _moved(rows, cut):
            if piece is None or (not piece.merged and _moves_back(piece)):
                problem = f"cycles are with an earlier row than the model's: {piece}"
                break
            moved.append(piece)
    return ProfileTrial(network, shares.npu, len(rows), total, tuple(moved), problem)


def _problems(shares: Record, prefixes: Record) -> Iterator[str]:
    for method, record in (("shares", shares), ("prefix", prefixes)):
        if record.verdict is not Verdict.VERIFIED:
            yield f"{method}: {record.verdict}: {record.failure.message if record.failure else ''}"
        metric = record.metric("npu_cycles")
        total = sum(op.cycles or 0 for op in record.ops)
        if metric is None or total != metric.value:
            yield f"{method}: rows sum to {total}, the NPU counted {metric.value if metric else 'nothing'}"
        if {op.method for op in record.ops} - {method}:
            yield f"{method}: rows are found by {sorted({op.method for op in record.ops})}"
    totals = [sum(op.cycles or 0 for op in record.ops) for record in (shares, prefixes)]
    if totals[0] != totals[1]:
        yield f"shares sum to {totals[0]}, prefixes to {totals[1]}"
    if any(op.cycles for op in prefixes.ops if op.id == JOB):
        yield "a job has a cost, and the model has none"
    ids = [[op.id for op in record.ops if op.id != JOB] for record in (shares, prefixes)]
    if ids[0] != ids[1]:
        yield "the two profiles have different rows"


def _moved(rows: Sequence[Op], cut: Sequence[Op]) -> Iterator[Moved | None]:
    """Yield the shortest pieces of the program that are equal in their sums and not row by row; None for a last one
    whose sums differ.
    """
    piece: list[tuple[Op, Op]] = []
    for row, part in zip(rows, cut, strict=True):
        piece.append((row, part))
        if part.cycles is not None and sum((a.cycles or 0) - (b.cycles or 0) for a, b in piece) == 0:
            if len(piece) > 1:
                yield Moved(
                    tuple(a.id for a, _ in piece),
                    tuple(a.cycles or 0 for a, _ in piece),
                    tuple(b.cycles or 0 for _, b in piece),
                    any(b.merged_with for _, b in piece),
                )
            piece = []
    if piece:
        yield None


def _moves_back(moved: Moved) -> bool:
    """Return whether a prefix, at the end of any row, has fewer cycles than the model has given out until then."""
    ahead = 0
    for share, prefix in zip(moved.shares, moved.prefixes, strict=True):
        ahead += prefix - share
        if ahead < 0:
            return True
    return False
