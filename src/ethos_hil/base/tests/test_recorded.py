"""A recorded answer that is not the test's is seen, and so is one that no test has any more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import WRITE, Recorded, plain, sections, shown

ROOT = Path(__file__).resolve().parents[4]


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int
    colours: tuple[Colour, ...] = (Colour.RED,)


@pytest.fixture
def point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Answers of a test, of which one is recorded."""
    recorded = Recorded(tmp_path / "recorded" / "test_it.txt", "test_point[1]")
    monkeypatch.setenv(WRITE, "write")
    recorded.check({"at": [Point(1), b"\1\2", None, 1.5, True]})
    recorded.check("a\n\n  page", "b")
    monkeypatch.delenv(WRITE)
    recorded.check({"at": [Point(1), b"\1\2", None, 1.5, True]})
    recorded.check("a\n\n  page\n", "b")
    return recorded


def test_what_is_recorded_shows_all_of_it_and_another_answer_is_seen(point: Recorded) -> None:
    assert '"Point": {\n' in sections(point.file)["test_point[1]"]
    assert shown(bytes(range(17))) == "000000  00010203 04050607 08090a0b 0c0d0e0f\n000010  10"

    for other in (Point(2), Point(1, ()), b"\1\3", 1, 1.25, False, "None", [Point(1)]):
        with pytest.raises(pytest.fail.Exception, match=r"test_it.txt: test_point\[1\] \(with ETHOS_HIL_SNAPSHOTS"):
            point.check({"at": [other, b"\1\2", None, 1.5, True]})
    with pytest.raises(pytest.fail.Exception, match=r"\+a"):
        point.check("a", "not recorded")
    assert len(sections(point.file)) == 2


def test_a_plain_text_is_the_same_in_the_next_run(tmp_path: Path) -> None:
    """Folders, times, digests and runs have names; spaces at the end go, and a long line is folded."""
    text = f"{tmp_path}/a in 1.5 s at 2026-01-01 02:03:04 UTC of {'ab' * 32}, {'ab' * 6}, 20260101T020304Z-abcdef  \n"
    assert plain(text + "x" * 60 + " " + "y" * 60, [tmp_path]) == (
        f"[0]/a in [seconds] at [time] of [sha256], [digest], [run]\n{'x' * 60}\n    {'y' * 60}"
    )


def test_what_is_not_refused_or_with_other_words_is_seen(point: Recorded) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        point.check_refusals(["1"], int, ValueError)
    with pytest.raises(pytest.fail.Exception, match=r"\+'a': ValueError: invalid literal for int"):
        point.check_refusals(["a"], int, ValueError)


def test_each_recorded_answer_is_of_a_test() -> None:
    for file in sorted(path for path in ROOT.glob("*/**/recorded/test_*.txt") if "build" not in path.parts):
        tests = (file.parents[1] / f"{file.stem}.py").read_text("utf-8")
        for name in sections(file):
            assert f"def {name.split('[')[0].split(' ')[0]}(" in tests, f"{file}: no test is called {name}"
