"""Whether two sets of noisy samples differ.

A rank test (Mann-Whitney U) says whether they do, and the ratio of their medians whether by enough. Fewer than ten
samples on a side say nothing: the test could not reach its limit, and one slow moment would decide.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import Enum

LIMIT = 0.002
"""Chance of a false alarm of one comparison. asv, which compares benchmarks of Python, takes the same."""


class SampleDifference(Enum):
    """What samples say."""

    NONE = "none"
    LESS = "less"
    MORE = "more"
    TOO_FEW = "too few"


def difference(before: Sequence[float], after: Sequence[float], *, smallest: float, least: int) -> SampleDifference:
    """Compare samples.

    Args:
        before, after: the samples, at least one each.
        smallest: the smallest difference of the medians that counts, as a share of the first one.
        least: how many samples are needed on each side.
    """
    old, new = statistics.median(before), statistics.median(after)
    if abs(new - old) <= smallest * abs(old):
        return SampleDifference.NONE
    if min(len(before), len(after)) < least:
        return SampleDifference.TOO_FEW
    from scipy.stats import mannwhitneyu  # late: it takes 0.9 s

    if mannwhitneyu(before, after).pvalue >= LIMIT:
        return SampleDifference.NONE
    return SampleDifference.MORE if new > old else SampleDifference.LESS
