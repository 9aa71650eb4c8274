"""FVP targets as black boxes: real processes with the FVP's command line. The launchers where it goes well, scripts in
place of an FVP where it does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.processes import signals_of_a_command
from ethos_hil.base.testing.recorded import Recorded, plain, shown
from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.base import Capability
from ethos_hil.harness.targets.fvp import FvpTarget, find_fvp
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.targets.tests.conftest import MODELS, U55, Fake, fails, image_of, run_fvp
from ethos_hil.harness.targets.tests.variants import ARMS_VERSION, DATA

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

TIMEOUT = 60.0


@pytest.fixture(scope="module")
def wire(launchers: Path, add_image: Image, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The whole UART of the program "add", as a launcher writes it."""
    folder = tmp_path_factory.mktemp("wire")
    (folder / "image.elf").write_bytes(add_image.elf)
    settings = ("-C", "ethosu.num_macs=128", "-C", f"mps3_board.uart0.out_file={folder / 'uart'}")
    command = [str(launchers / MODELS["corstone-300"].fvp.executable), *settings, "-a", str(folder / "image.elf")]
    collector, length = Collector(add_image), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + TIMEOUT
        while not collector.complete and time.monotonic() < deadline:
            time.sleep(0.02)
            data = (folder / "uart").read_bytes() if (folder / "uart").exists() else b""
            collector.feed(data[length:])
            length = len(data)
        process.terminate()
    assert collector.complete
    return data


def test_command_lines_are_those_of_upstream(recorded: Recorded, fake: Fake) -> None:
    """Names and order as in executorch 1.4.1, backends/arm/test/runner_utils.py."""
    folder = fake("exit 0")
    target, fast = FvpTarget("corstone-300", U55), FvpTarget("corstone-300", U55, fast=True)
    assert (target.cycle_provenance, target.version) == ("fvp", ARMS_VERSION)
    assert (target.capabilities() - fast.capabilities()) == {Capability.NPU_CYCLES}
    fake("exit 0", "corstone-320")
    large = FvpTarget("corstone-320", EthosU.parse("ethos-u85-1024"))
    lines = [fast.command({"mps3_board.uart0.out_file": "/x/uart"}, Path("/x/image.elf"), 10.2)]
    lines.append(large.command({}, Path("/x/image.elf"), 10))
    recorded.check("\n\n".join(plain("\n".join(words).replace("-C\n", "-C "), [folder]) for words in lines))


# --- It does not start. ---


def test_an_fvp_is_in_the_folder_of_the_setting_or_on_path(
    fake: Fake, launchers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = MODELS["corstone-300"].fvp.executable
    folder = fake("exit 0")
    monkeypatch.setenv("PATH", f"{launchers}:{os.environ['PATH']}")
    assert find_fvp(name) == folder / name
    monkeypatch.delenv(FVP_PATH_VARIABLE)
    assert find_fvp(name) == launchers / name
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetNotAvailable, match=f"{name} is not on PATH") as caught:
        find_fvp(name)
    assert (caught.value.kind, caught.value.exit_status) == ("not-launched", 3)
    assert "ethos-hil fvp-launchers" in str(caught.value.hint)
    monkeypatch.setenv(FVP_PATH_VARIABLE, "/nowhere")
    with pytest.raises(TargetNotAvailable, match="/nowhere"):
        find_fvp(name)


LIBRARY = (
    "FVP_Corstone_SSE-320: error while loading shared libraries: libpython3.9.so.1.0: cannot open shared object file"
)


@pytest.mark.parametrize(
    "file",
    [f"#!/bin/sh\necho '{LIBRARY}: No such file or directory' >&2\nexit 127\n", "\x7fELF of another machine"],
    ids=["a library is missing", "another machine's"],
)
def test_what_cannot_be_started_is_named_before_anything_is_lowered(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    path = tmp_path / "FVP_Corstone_SSE-320"
    path.write_text(file)
    path.chmod(0o755)
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path))
    with pytest.raises(TargetNotAvailable) as caught:
        make_target("corstone-320", EthosU.parse("ethos-u85-256"))
    recorded.check(plain(shown(caught.value.failure), [tmp_path]))


_LINES = [line.split(" | ", 2) for line in (DATA / "failures.txt").read_text().splitlines() if " | " in line]
FAILURES = {name: (body, float(timeout)) for timeout, name, body in _LINES}


@pytest.mark.parametrize("name", FAILURES)
def test_a_run_without_an_answer_says_why(
    recorded: Recorded, fake: Fake, add_image: Image, tmp_path: Path, name: str
) -> None:
    body, timeout = FAILURES[name]
    fake(body)
    started = time.monotonic()
    with pytest.raises((TargetError, TargetNotAvailable)) as caught:
        run_fvp(add_image, timeout)
    assert time.monotonic() - started < 10
    text = f"{type(caught.value).__name__} {caught.value.exit_status}\n{shown(caught.value.failure)}"
    recorded.check(plain(re.sub(r"\d+ bytes", "[some] bytes", text), [tmp_path]))


# --- It starts, and something goes wrong. ---


def part(share: float) -> Callable[[bytes], bytes]:
    """Return what takes the first part of a conversation."""
    return lambda wire: wire[: int(len(wire) * share)]


def flipped(wire: bytes) -> bytes:
    """A bit in the middle is another."""
    middle = len(wire) // 2
    return wire[:middle] + bytes([wire[middle] ^ 8]) + wire[middle + 1 :]


def says(folder: Path, data: bytes) -> str:
    """Return a shell command that writes these bytes to the UART."""
    (folder / "wire").write_bytes(data)
    return f'cat {folder / "wire"} > "$uart"'


def test_the_recorded_conversation_is_a_whole_one_of_its_run(
    fake: Fake, add_image: Image, wire: bytes, tmp_path: Path
) -> None:
    """So that the tests that cut it short test the cut."""
    fake(f"{says(tmp_path, wire)}; exec sleep 1000")
    assert len(run_fvp(add_image).runs) == 1
    fails(lambda: run_fvp(image_of(load("add", "corstone-300"))), "stale-output")


KILLS = (signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT)
Break = tuple[Callable[[bytes], bytes], str, str, str]
BREAKS: list[Break] = [
    *((part(share), "exit 0", "link", "the FVP ended of its own accord") for share in (0.1, 0.5, 0.9, 0.999)),
    *((part(share), f"ulimit -c 0; kill -{by.value} $$", "crashed", by.name) for share in (0, 0.5) for by in KILLS),
    (part(0.5), "echo Fatal: out of patience; exit 3", "crashed", "exited with status 3"),
    (part(0.5), "echo Fatal: out of patience; exit 3", "crashed", "out of patience"),
    (part(0.5), "exec sleep 1000", "timeout", "bytes of a frame"),
    (flipped, "exec sleep 1000", "link", ""),
]
"""A part of it, or another; what the FVP does after it; the kind of the error, and words in it."""


@pytest.mark.parametrize("case", BREAKS)
def test_what_breaks_a_conversation_is_told(
    fake: Fake, add_image: Image, wire: bytes, tmp_path: Path, case: Break
) -> None:
    change, then, kind, words = case
    fake(f"{says(tmp_path, change(wire))}; {then}")
    started = time.monotonic()
    fails(lambda: run_fvp(add_image, 1.0 if kind == "timeout" else TIMEOUT), kind, words)
    assert time.monotonic() - started < 10


def test_what_the_fvp_left_behind_is_ended(fake: Fake, add_image: Image) -> None:
    fake('sleep 1234 "$uart" & exit 3')  # its arguments hold the private folder, which the fixture looks for
    with pytest.raises(TargetNotAvailable):
        run_fvp(add_image)


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.5])
def test_ctrl_c_ends_the_fvp_and_is_passed_on(fake: Fake, add_image: Image, seconds: float) -> None:
    """Also while it starts."""
    fake("trap '' INT; sleep 1000 & wait")
    FvpTarget("corstone-300", U55)
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))

    def run() -> None:
        timer.start()
        run_fvp(add_image)

    with signals_of_a_command(), pytest.raises(KeyboardInterrupt):
        run()
    timer.join()


def test_several_run_at_once(use_launchers: Path) -> None:
    recorded = load("add", "corstone-300")
    images = [image_of(recorded) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run_fvp, images))
    for image, outcome in zip(images, outcomes, strict=True):
        assert outcome.run_id == image.run_id
        np.testing.assert_array_equal(outcome.runs[0].outputs[0], recorded.outputs[0])
