"""The benchmark times what it should, and a broken build gives no figure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.suites.lab.self_bench import suite_tests
from ethos_hil.suites.lab.self_bench.suite_tests import Compared, Times, timed, total

TESTS = """
import time
import pytest

@pytest.mark.parametrize("number", range(40))
def test_sleeps(number):
    time.sleep(1.0 if number == 0 else 0.1 if {slow} else 0.01)
"""


def times(folder: Path, text: str, *options: str) -> Times:
    file = folder / "test_it.py"
    file.write_text(text)
    # Of other packages' plugins, which take two seconds to import, none is needed here.
    environment = os.environ | {
        "PYTHONPATH": str(suite_tests.REPOSITORY / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    arguments = ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", *options, str(file)]
    return timed(arguments, folder, environment, folder)


def test_the_median_of_tests_spread_over_the_file_but_for_the_first(tmp_path: Path) -> None:
    assert 0.1 <= times(tmp_path, TESTS.format(slow="number % 5 == 0")).wall < 1.0  # numbers 5, 10, 15 ... of 40
    assert 0.01 <= times(tmp_path, TESTS.format(slow="number % 5 == 1")).wall < 0.1


WORKS = """
import subprocess, sys, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_works(number):
    {}
"""


def test_cpu_time_is_that_of_the_test_and_of_what_it_started(tmp_path: Path) -> None:
    work = "until = time.process_time() + 0.3\n    while time.process_time() < until: pass"
    child = "import time\\nwhile time.process_time() < 0.3: pass"
    assert times(tmp_path, WORKS.format("time.sleep(0.2)")).cpu < 0.1
    assert 0.29 < times(tmp_path, WORKS.format(work)).cpu < 0.5
    assert 0.29 < times(tmp_path, WORKS.format(f"subprocess.run([sys.executable, '-c', '{child}'])")).cpu < 0.8


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
    first = Compared("a", Times(1, 10), Times(2, 20), Times(3, 30))
    second = Compared("b", Times(10, 1), Times(20, 2), Times(30, 3))
    assert total([first, second]) == Compared("one of each", Times(11, 11), Times(22, 22), Times(33, 33))
    assert first.cold.over(first.upstream) == (0.5, 0.5)
