"""Every source of questions, as its command: killed at random moments, resumed, divided, and put together."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from ethos_hil.base.file_lock import wait_for_writers
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.campaign.run_folder import STATE, read_state
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.testing.small_grid import LINEAR, RELU, grid

pytestmark = [pytest.mark.proof, pytest.mark.slow, pytest.mark.timeout(1200)]
FILES = {
    "net.py": """
import torch

def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()), (torch.randn(1, 16),)

def data():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(16, generator=generator), number % 8) for number in range(200)]
""",
    "grid.toml": grid("ethos-u55-128", "ethos-u85-256", cases=RELU + LINEAR),
    "nightly.toml": """
schema_version = 1
[run]
jobs = 2
known_model = "net.py:net"
[[model]]
model = "net.py:net"
npus = ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"]
[[sweep]]
grid = "grid.toml"
""",
}


class Source(NamedTuple):
    """A command that asks many questions: its words and arguments, what it says of an answer that is lost, its exit
    status then, and whether its user names the run folder.
    """

    words: tuple[str, ...]
    lost: str
    status: int
    by_name: bool = True

    def arguments(self, root: str, *more: str, resume: bool = False) -> list[str]:
        """Return the arguments of a run in `root`."""
        place = [f"--{'resume' if resume else 'run-name'}", "one", "--runs", root] if self.by_name else ["--into", root]
        return [*self.words, *place, *more]


SOURCES = {
    "bench": Source(("bench", "--grid", "grid.toml", "--jobs", "2"), "without a record: ", 1),
    "evaluate": Source(("evaluate", "net.py:net", "--data", "net.py:data", "-j", "2"), " have no answer", 3),
    "scan": Source(
        ("scan", "net.py:net", "--over", "ethos-u-vela=9.1.0,9.2.0", "--npu", "ethos-u85-128", "--npu", "ethos-u55-128",
         "--environments", "kept"),
        " has no answer for net.py:net", 3,
    ),
    "nightly": Source(("nightly", "nightly.toml"), "it was chosen and has no record", 1, by_name=False),
}  # fmt: skip


@pytest.fixture(params=list(SOURCES.values()), ids=list(SOURCES))
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A source, in a folder that has all that it needs."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("wheels").mkdir()
    for version in ("9.1.0", "9.2.0"):
        wheel(Path("wheels"), "ethos-u-vela", version)
    for name, value in only_from(Path("wheels").absolute()).items():
        monkeypatch.setenv(name, value)
    chosen: Source = request.param
    return chosen


def start(arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def end(arguments: list[str]) -> tuple[int, str]:
    process = start(arguments)
    out, error = process.communicate(timeout=600)
    return process.returncode, out + error


def the_run(root: str) -> Path:
    (folder,) = (path for path in Path(root).iterdir() if path.name[0] != ".")
    return folder


def facts(root: str) -> Counter[tuple[str, str, str, str]]:
    rows = records_of(the_run(root))
    return Counter((record.name, record.npu, record.within.planned, str(record.verdict)) for record in rows)


def test_it_is_killed_at_random_moments_and_is_an_undisturbed_one_in_the_end(source: Source) -> None:
    assert end(source.arguments("first"))[0] == 0  # everything is lowered then
    began = time.monotonic()
    assert end(source.arguments("undisturbed"))[0] == 0
    seconds, whole = time.monotonic() - began, facts("undisturbed")
    assert set(whole.values()) == {1}
    chance = random.Random(len(source.words))
    for number in range(3):
        resume = Path("killed/one", STATE).exists()
        process = start(source.arguments("killed", resume=resume))
        try:
            process.wait(chance.uniform(0.3, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            if number % 2:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)
        else:
            break  # it has ended; another night would be a new one
    else:
        if any(Path("killed").glob("[!.]*")):
            assert wait_for_writers(the_run("killed"), 60)
        resume = Path("killed/one", STATE).exists()
        status, text = end(source.arguments("killed", resume=resume))
        assert status == 0, text
    assert facts("killed") == whole
    assert read_state(the_run("killed")).whole


def test_its_shards_are_the_whole_and_a_lost_file_of_records_is_red_and_named(source: Source) -> None:
    assert end(source.arguments("undisturbed"))[0] == 0
    for number in (1, 2):
        status, text = end(source.arguments(f"shards/{number}", "--shard", f"{number}/2"))
        assert status == 0, text
    of_shards = facts("shards/1") | facts("shards/2")  # each shard runs the known model
    assert of_shards == facts("undisturbed")
    merging = [*source.words, "--merge", "shards"]
    status, text = end(merging)
    assert status == 0, text
    max(Path("shards").rglob("records-*.jsonl"), key=lambda path: path.stat().st_size).unlink()
    status, text = end(merging)
    assert status == source.status, text
    assert source.lost in text
