"""What `--over` takes: versions, ranges and lists, and one clear error for anything else."""

from __future__ import annotations

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.scan.releases import WantedVersions

RELEASED = ("5.2.0", "5.1.0", "5.0.0", "4.5.0", "4.4.1", "4.4.0", "4.10.0", "3.9")
"""In pip's order: the newest first, but for one that is newer than its text looks."""


def versions(text: str) -> tuple[str, ...]:
    return WantedVersions.parse(f"ethos-u-vela={text}").resolve(RELEASED)


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "4.4..5.1": ("4.4.1", "4.5.0", "4.10.0", "5.0.0", "5.1.0"),
        "4.4.0..5.0": ("4.4.0", "4.4.1", "4.5.0", "4.10.0", "5.0.0"),
        "5.0..": ("5.0.0", "5.1.0", "5.2.0"),
        "4.4..4.4": ("4.4.1",),
        "4.4.0..4.4": ("4.4.0", "4.4.1"),
        "5.1.0..5.1.0": ("5.1.0",),
        "5.1": ("5.1.0",),
        "4.4": ("4.4.1",),
        "5.1.0, 4.4.0,5.1": ("4.4.0", "5.1.0"),
        "5.1..5.2,4.4.0": ("4.4.0", "5.1.0", "5.2.0"),
        "3.0..4.0": ("3.9",),
    }.items(),
)
def test_the_newest_of_each_minor_version_and_what_is_named_in_full(text: str, expected: tuple[str, ...]) -> None:
    assert versions(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "numpy=1.0": "'numpy' is not a package to scan over",
        "ethos-u-vela": "names no versions",
        "ethos-u-vela=": "names no versions",
        "ethos-u-vela=5": "'5' is neither a version",
        "ethos-u-vela=latest": "'latest' is neither a version",
        "ethos-u-vela=5.1.0.what": "is neither a version",
        "ethos-u-vela=..5.1": "is neither a version",
        "ethos-u-vela=5.1...5.2": "is neither a version",
        "ethos-u-vela=5.1.0,": "'' is neither a version",
        "ethos-u-vela=5.2..4.4": "runs backwards",
        "ethos-u-vela=4.4.1..4.4.0": "runs backwards",
    }.items(),
)
def test_what_means_nothing_is_refused_before_an_index_is_asked(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        WantedVersions.parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "5.0.7": "has no release 5.0.7",
        "6.0": "has no release 6.0",
        "5.3..6.0": "no release lies in this range",
        "4.6..4.9": "no release lies in this range",
        "4.4.2..5.0": "has no release 4.4.2, where",
        "4.4..5.0.9": "has no release 5.0.9, where",
    }.items(),
)
def test_what_is_not_released_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        versions(text)
    assert caught.value.hint


def test_versions_in_full_need_no_index() -> None:
    assert WantedVersions.parse("ethos-u-vela=5.1.0,4.4.1").named == ("4.4.1", "5.1.0")
    assert WantedVersions.parse("ethos-u-vela=5.1").named is None
    assert WantedVersions.parse("ethos-u-vela=5.0.0..5.1.0").named is None
