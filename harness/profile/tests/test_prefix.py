"""Prefix differencing: rows sum to the whole, noise merges rows, and counts that cannot be are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.link.outcome import DelegateRun, PrefixRun
from ethos_hil.harness.profile.prefix import Share, StreamPart, shares
from ethos_hil.lowering.artifact import NpuOp

ACTIVE, MAC = 35, 48
ENDS = (8, 20, 36)
"""Three parts; in `LOOP` the last one has no cut."""


def row(number: int, end: int) -> NpuOp:
    return NpuOp(f"npu{number:05d}", "Conv2D", end - 4, "CONV2D", (), "", "", (), 0)


PARTS = tuple(StreamPart((row(number, end),), end) for number, end in enumerate(ENDS))
LOOP = (*PARTS[:2], StreamPart(PARTS[2].rows, None))


def call(
    *cycles: int, events: Sequence[tuple[int | None, ...]] = (), parts: Sequence[StreamPart] = PARTS
) -> DelegateRun:
    """Return a call whose jobs take so long: no operation, each prefix, and all of the stream."""
    counted = events or [()] * len(cycles)
    ends = [0, *(part.end for part in parts if part.end is not None)]
    prefixes = tuple(map(PrefixRun, ends, cycles[:-1], counted[:-1]))
    return DelegateRun(3, 0, cycles[-1], counted[-1], (), (), prefixes)


def split(*calls: DelegateRun, parts: Sequence[StreamPart] = PARTS) -> list[tuple[tuple[int, ...], int, int]]:
    return [(share.parts, share.cycles, share.spread) for share in shares(parts, calls, [()] * len(calls))]


def test_rows_and_job_sum_to_the_whole() -> None:
    assert split(call(5, 105, 105, 150, 150)) == [((), 5, 0), ((0,), 100, 0), ((1,), 0, 0), ((2,), 45, 0)]


def test_the_end_of_the_stream_ends_what_cannot_be_cut() -> None:
    jobs = call(0, 10, 30, 90, parts=LOOP)
    assert split(jobs, parts=LOOP) == [((), 0, 0), ((0,), 10, 0), ((1,), 20, 0), ((2,), 60, 0)]


def test_the_median_of_each_prefix_counts() -> None:
    calls = [call(0, 100, 200, 300, 300), call(0, 104, 204, 300, 300), call(0, 90, 203, 306, 306)]
    assert split(*calls) == [((), 0, 0), ((0,), 100, 14), ((1,), 103, 14), ((2,), 97, 6)]


def test_what_noise_hides_is_one_part() -> None:
    quiet, loud = call(0, 100, 104, 200, 200), call(0, 108, 106, 204, 204)
    assert split(quiet, loud) == [((), 0, 0), ((0,), 100, 8), ((1, 2), 100, 8)]


def test_a_last_part_that_noise_hides_joins_the_one_before() -> None:
    quiet, loud = call(0, 100, 200, 203, 203), call(0, 101, 207, 206, 206)
    assert split(quiet, loud) == [((), 0, 0), ((0,), 100, 1), ((1, 2), 103, 3)]


def test_events_are_differences_too() -> None:
    calls = [
        call(0, 10, 20, 30, 30, events=[(0,), (10,), (20,), (30,), (30,)]),
        call(0, 10, 20, 30, 30, events=[(0,), (4,), (None,), (9,), (9,)]),
    ]
    counted = shares(PARTS, calls, [(ACTIVE,), (MAC,)])
    assert [share.events for share in counted] == [
        {ACTIVE: 0, MAC: 0},
        {ACTIVE: 10, MAC: 4},
        {ACTIVE: 10, MAC: None},
        {ACTIVE: 10, MAC: None},
    ], "a counter that has wrapped has no difference"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (call(0, 100, 90, 200, 200), "not monotone: prefix 1 takes 100 cycles, and prefix 2"),
        (call(0, 100, 120, 200, 210), "takes 210 cycles, its last prefix, which does the same, 200"),
        (call(0, 100, 120, 200, 100), "takes 100 cycles, its last prefix"),
        (call(0, 100, 120, 150, parts=LOOP), "3 prefixes came, expected 4; byte 36 has none"),
    ],
)
def test_counts_that_cannot_be_are_refused(job: DelegateRun, says: str) -> None:
    with pytest.raises(TargetError) as caught:
        shares(PARTS, [job], [()])
    assert caught.value.kind == "profile"
    assert says in caught.value.message


def test_a_whole_that_is_shorter_than_no_operation_is_refused() -> None:
    with pytest.raises(TargetError, match="the totals are not monotone"):
        split(call(50, 10, 10, 10, 10))


def test_a_share_of_nothing_has_no_segment() -> None:
    (job, *_) = shares(PARTS, [call(7, 8, 9, 10, 10)], [()])
    assert job == Share((), 7, 0, {}, (7,))
