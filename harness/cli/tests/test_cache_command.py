"""`ethos-hil cache`, and what the shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors, run_command
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.test_cache import make_artifact

KEYS = [f"{number:064x}" for number in range(3)]
LIMIT = "ETHOS_HIL_CACHE_LIMIT"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the commands here, with three entries."""
    for key in KEYS:
        Cache(tmp_path).get_or_make(key, lambda key=key: make_artifact(key))  # type: ignore[misc]
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path))
    monkeypatch.delenv(LIMIT, raising=False)
    return tmp_path


def test_it_shows_what_there_is_and_clears(folder: Path, recorded: Recorded) -> None:
    recorded.check(run_command("cache").shown(folder))
    recorded.check(run_command("cache", "clear", environment={LIMIT: "1GB"}).shown(folder), "clear")


def test_a_limit_that_is_none_is_one_line_and_removes_nothing(
    folder: Path, command_line: Run, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.setenv(LIMIT, "some")
    check_errors(recorded, command_line, "cache", ["", "clear"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ethos-hil run net", []),
        ("ethos-hil cache ", ["clear"]),
        ("ethos-hil doc", ["doctor"]),
    ],
)
def test_the_shell_completes_what_is_one_of_a_few(line: str, words: list[str]) -> None:
    """What bash is given for a line that ends where the cursor is."""
    number = str(len(line.split(" ")) - 1)
    variables = {"COMP_WORDS": line, "COMP_CWORD": number, "_ETHOS_HIL_COMPLETE": "complete_bash"}
    ended = run_command(environment=variables)
    assert (ended.out.split(), ended.err) == (words, "")
