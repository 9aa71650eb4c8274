"""`ethos-hil cache`, and what the shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import SCHEMA_VERSION
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.test_cache import make_artifact

KEYS = [f"{number:064x}" for number in range(3)]


def ethos_hil(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ETHOS_HIL_")}
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with three entries."""
    for key in KEYS:
        Cache(tmp_path).get_or_make(key, lambda key=key: make_artifact(key))  # type: ignore[misc]
    return tmp_path


def test_it_shows_what_there_is(folder: Path) -> None:
    done = ethos_hil("cache", ETHOS_HIL_CACHE=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    table = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert table == {"folder": str(folder), "models": "3", "size": "122.9 kB", "limit": "10.0 GB"}
    document = json.loads(ethos_hil("cache", "--json", ETHOS_HIL_CACHE=str(folder), ETHOS_HIL_CACHE_LIMIT="1GB").stdout)
    assert document == {
        "schema_version": 1,
        "folder": str(folder),
        "entries": 3,
        "bytes": 122880,
        "limit": 10**9,
        "removed": None,
    }


def test_it_trims_to_a_limit_and_clears(folder: Path) -> None:
    variables = {"ETHOS_HIL_CACHE": str(folder)}
    assert Cache(folder).get(KEYS[0]) is not None
    done = ethos_hil("cache", "trim", "--limit", "90kB", **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split(maxsplit=1) == ["removed", "1 (41.0 kB)"]
    names = sorted(path.name for path in (folder / f"v{SCHEMA_VERSION}/artifacts").iterdir())
    assert names == [KEYS[0], KEYS[2]]
    document = json.loads(ethos_hil("cache", "trim", "--json", ETHOS_HIL_CACHE_LIMIT="50kB", **variables).stdout)
    assert (document["entries"], document["limit"], document["removed"]) == (1, 50000, {"entries": 1, "bytes": 40960})
    document = json.loads(ethos_hil("cache", "clear", "--json", **variables).stdout)
    assert (document["entries"], document["bytes"], document["removed"]["entries"]) == (0, 0, 1)
    again = ethos_hil("cache", "clear", **variables)
    assert again.returncode == 0
    assert again.stdout.endswith("removed  0 (0 bytes)\n")


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (("trim", "--limit", "some"), {}, "--limit 'some' is not a size"),
        ((), {"ETHOS_HIL_CACHE_LIMIT": "some"}, "ETHOS_HIL_CACHE_LIMIT 'some' is not a size"),
        (("clear",), {"ETHOS_HIL_CACHE_LIMIT": "some"}, "ETHOS_HIL_CACHE_LIMIT 'some' is not a size"),
    ],
)
def test_a_limit_that_is_none_is_one_line_and_removes_nothing(
    folder: Path, arguments: tuple[str, ...], variables: dict[str, str], message: str
) -> None:
    done = ethos_hil("cache", *arguments, ETHOS_HIL_CACHE=str(folder), **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ethos-hil: {message} (give a number and a unit, such as 10GB or 500MB)\n"
    assert len(list((folder / f"v{SCHEMA_VERSION}/artifacts").iterdir())) == 3


def completed(line: str) -> list[str]:
    """What bash is given for a line that ends where the cursor is."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_ETHOS_HIL_COMPLETE": "complete_bash"}
    command = [str(Path(sys.executable).with_name("ethos-hil"))]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ethos-hil run net.py:net --npu ", list(EthosU.names())),
        ("ethos-hil lower net.py:net --npu ethos-u65", ["ethos-u65-256", "ethos-u65-512"]),
        ("ethos-hil preflight net.py:net --target vir", ["virtual"]),
        ("ethos-hil run net.py:net --memory-mode S", ["Shared_Sram", "Sram_Only"]),
        ("ethos-hil run net", []),
        ("ethos-hil cache ", ["clear", "trim"]),
        ("ethos-hil doc", ["doctor"]),
    ],
)
def test_the_shell_completes_what_is_one_of_a_few(line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_bash_completes_with_the_script_it_is_given() -> None:
    script = """
source <(ethos-hil --show-completion)
COMP_WORDS=(ethos-hil run net.py:net --npu ethos-u65); COMP_CWORD=4
_ethos_hil_completion ethos-hil
echo "${COMPREPLY[@]}"
"""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "--norc", "-c", script]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ethos-u65-256 ethos-u65-512\n", "")
