"""The plugin in sessions of other projects, which load it because it is installed: it changes nothing there."""

from __future__ import annotations

import json

import pytest

from ethos_hil.suites.tests.test_selection import DECLARED, HEAVY, UNWANTED, USAGE

pytest_plugins = "pytester"

LIGHT = {
    *("ethos_hil", "ethos_hil.results", "ethos_hil.results.places", "ethos_hil.results.store", "ethos_hil.suites"),
    *("ethos_hil.suites.plugin", "ethos_hil.suites.plugin.hooks", "ethos_hil.suites.plugin.options"),
    *("ethos_hil.lowering", "ethos_hil.lowering.made_from", "ethos_hil.lowering.made_from.file_watch"),
}
"""The only modules of this package that a session of another project imports."""
CONFTEST = """
import json, sys

def pytest_addoption(parser):
    parser.addoption("--target", default="theirs")
    parser.addoption("--compile_only", action="store_true")
    parser.getgroup("records").addoption("--runs", type=int, default=3)

def pytest_unconfigure(config):
    mine = sorted(name for name in sys.modules if name.partition(".")[0] == "ethos_hil")
    heavy = [name for name in %r if name in sys.modules]
    with open("imported.json", "w") as file:
        json.dump([mine, heavy], file)
"""
TESTS = """
import pytest

def test_options(pytestconfig):
    assert pytestconfig.getoption("--target") == pytestconfig.getoption("target") == "mine"
    assert pytestconfig.getoption("runs") == 3
    assert pytestconfig.getoption("compile_only") is False

def test_property(record_property):
    record_property("verdict", "verified")

def test_named_BI():
    pass

def test_nothing_is_watched():
    from ethos_hil.lowering.made_from.file_watch import WATCH
    assert not WATCH.on

@pytest.mark.parametrize("verdict", ["failed"])
def test_fixture_U55_BI(verdict):
    pass
"""


@pytest.fixture
def elsewhere(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project without ethos-hil that has options of the same names."""
    pytester.makeconftest(CONFTEST % (HEAVY,))
    pytester.makepyfile(test_theirs=TESTS)
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider {UNWANTED}\n")
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_their_options_words_and_summary_stay_theirs(elsewhere: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = elsewhere.runpytest_subprocess("-v", "--target", "mine", *workers)
    assert result.ret == 0, str(result.stdout)
    result.assert_outcomes(passed=5)
    assert str(result.stdout).count("PASSED") == 5
    assert "verdict" not in str(result.stdout)
    mine, heavy = json.loads((elsewhere.path / "imported.json").read_text())
    # The words of the question, from which the options are made, take some 10 ms.
    assert {name for name in mine if not name.startswith("ethos_hil.base")} == LIGHT
    assert heavy == []


def test_a_test_that_took_its_worker_with_it_before_any_verdict_is_counted(pytester: pytest.Pytester) -> None:
    """The controller collects nothing. It learns from the next test that this session states verdicts."""
    pytester.makepyfile(
        test_dies="""
def test_dies_BI():
    __import__("os")._exit(3)

def test_lives_BI(record_property):
    record_property("verdict", "verified")
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["lives * 1V", "dies * 1F", "1 verified, 0 compiled-only, 0 skipped, 1 failed, *"])


def test_what_is_declared_beside_them_says_whose_the_options_are(elsewhere: pytest.Pytester) -> None:
    elsewhere.makepyfile(test_sample=DECLARED)
    result = elsewhere.runpytest_subprocess("test_sample.py")
    assert result.ret != 0
    message = "another plugin or a conftest.py has options of the same name: --target, --runs"
    assert message in str(result.stdout) + str(result.stderr)
    again = elsewhere.runpytest_subprocess("--suffix", "BI")
    assert again.ret == USAGE
    assert message in str(again.stderr)


def test_without_autoload_it_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_sample=DECLARED)
    for plugin in ("ethos_hil", "ethos_hil.suites.plugin.hooks"):
        result = pytester.runpytest_subprocess("--collect-only", "-q", "-p", plugin, "--suffix", "U55_BI")
        assert [line for line in result.outlines if "::" in line] == [
            f"test_sample.py::test_plus_{case}_U55_BI" for case in ("same", "itself")
        ] + ["test_sample.py::test_wrong_operator_U55_BI"]


def test_unverified_has_a_word_of_its_own_and_is_never_green(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_foreign="""
def test_foreign_BI(record_property):
    record_property("verdict", "unverified")
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-v", "--color=yes")
    text = str(result.stdout)
    assert "\x1b[33mUNVERIFIED" in text
    assert "PASSED" not in text
    assert "\x1b[33m0 verified, 0 compiled-only, 1 unverified, 0 skipped, 0 failed" in text
    result.stdout.fnmatch_lines(["foreign * 1U"])
