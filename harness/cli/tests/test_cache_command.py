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


def test_it_shows_what_there_is_and_clears(
    folder: Path, ethos_hil: Run, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    """A limit that is none is one line, and removes nothing."""
    recorded.check(run_command("cache").shown(folder))
    monkeypatch.setenv(LIMIT, "some")
    check_errors(recorded, ethos_hil, "cache", ["", "clear"])
    recorded.check(run_command("cache", "clear", environment={LIMIT: "1GB"}).shown(folder), "clear")


@pytest.mark.parametrize(("line", "words"), [("run net", []), ("cache ", ["clear"]), ("doc", ["doctor"])])
def test_the_shell_completes_what_is_one_of_a_few(line: str, words: list[str]) -> None:
    """What bash is given for a line that ends where the cursor is."""
    number = str(len(line.split(" ")))
    variables = {"COMP_WORDS": f"ethos-hil {line}", "COMP_CWORD": number, "_ETHOS_HIL_COMPLETE": "complete_bash"}
    ended = run_command(environment=variables)
    assert (ended.out.split(), ended.err) == (words, "")
