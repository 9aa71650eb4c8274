"""A version that no one looked at is taken for the newest before it that someone did."""

from __future__ import annotations

import pytest

from ethos_hil.base.sightings import Sightings

GONE = Sightings(("5.1.0", "5.3.0"), gone=("5.2.0",))


@pytest.mark.parametrize(
    ("version", "has"),
    [("5.1.0", True), ("5.2.0", False), ("5.2.1", False), ("5.3.0", True), ("6.0.0.dev1", True), ("5.2.9rc1", False),
     ("4.0.0", True), ("5.1.9", True), (None, True), ("a branch", True)],
)  # fmt: skip
def test_a_version_has_what_the_newest_known_one_before_it_has(version: str | None, has: bool) -> None:
    assert GONE.include(version) is has
    assert Sightings(("1.0",)).include(version)
