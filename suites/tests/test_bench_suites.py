"""The benchmark times what it should, and a broken build gives no figure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowering.errors import ToolError
from suites import bench_suites
from suites.bench_suites import Compared, timed, total

TESTS = """
import time
import pytest

@pytest.mark.parametrize("number", range(40))
def test_sleeps(number):
    time.sleep(1.0 if number == 0 else 0.1 if {slow} else 0.01)
"""


def times(folder: Path, text: str, *options: str) -> float:
    file = folder / "test_it.py"
    file.write_text(text)
    # Of other packages' plugins, which take two seconds to import, none is needed here.
    environment = os.environ | {"PYTHONPATH": str(bench_suites.REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    arguments = ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", *options, str(file)]
    return timed(arguments, folder, environment, folder)


def test_the_median_of_tests_spread_over_the_file_but_for_the_first(tmp_path: Path) -> None:
    assert 0.1 <= times(tmp_path, TESTS.format(slow="number % 5 == 0")) < 1.0  # numbers 5, 10, 15 ... of 40
    assert 0.01 <= times(tmp_path, TESTS.format(slow="number % 5 == 1")) < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "def test_fails():\n assert False\n",
        "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_skips(n):\n pytest.skip('no device')\n",
        "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_x(n):\n pytest.xfail('no device')\n",
        "def test_one():\n pass\n",
        "",
    ],
    ids=["failing", "skipped", "expected to fail", "too few", "none"],
)
def test_what_was_not_all_run_and_right_gives_no_figure(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError):
        times(tmp_path, text)


def test_all_together_are_one_test_of_each() -> None:
    assert total([Compared("a", 1, 2, 3), Compared("b", 10, 20, 30)]) == Compared("one of each", 11, 22, 33)
