"""Samples of upstream's tests: fixed by a seed, and spread over files and NPUs.

`python -m ethos_hil.suites.lab.prove.upstream.sample RESULTS...` prints the sample that the tests run (sample.txt),
chosen among the quicker half of the tests that reached the device and passed in a full run's results: they have
minutes, and what takes long is mostly the same operator on a larger tensor. What it leaves out, `make upstream` runs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import median

from ethos_hil.suites.lab.prove.upstream.records import npu_of, read

SIZE = 60


def spread(items: Iterable[str], size: int, seed: int) -> list[str]:
    """Draw `size` tests, or all if there are fewer: one of each file and NPU before a second of any."""
    randomly = random.Random(seed)
    groups: dict[tuple[str, str | None], list[str]] = {}
    for item in sorted(items):
        groups.setdefault((item.partition("::")[0], npu_of(item)), []).append(item)
    names = sorted(groups, key=str)
    randomly.shuffle(names)
    for group in groups.values():
        randomly.shuffle(group)
    rounds = zip_longest(*(groups[name] for name in names))
    chosen = [item for row in rounds for item in row if item is not None][:size]
    randomly.shuffle(chosen)
    return chosen


def quick(results: Sequence[Path]) -> list[str]:
    """Return the quicker half of the tests that passed on the device with the reference's outputs."""
    tests = [result for path in results for result in read(path).values()]
    good = [test for test in tests if test.outcome == "passed" and test.calls and not test.wrong]
    middle = median(test.seconds for test in good)
    return [test.id for test in good if test.seconds <= middle]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{item}\n" for item in spread(quick([*map(Path, sys.argv[1:])]), SIZE, seed=0)))
