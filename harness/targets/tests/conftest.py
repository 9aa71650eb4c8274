"""What the FVP targets' tests share: installed launchers, and programs that stand in for FVPs that misbehave."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.processes import left_of, processes_with
from ethos_hil.harness.fvp_stand_in.tests.conftest import CORSTONE_300_U55, CORSTONE_320
from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, FvpModel
from ethos_hil.harness.targets.fvp import FvpTarget
from ethos_hil.harness.targets.tests.variants import FvpVariant
from ethos_hil.harness.virtual.tests.programs import Recorded

U55 = EthosU.parse("ethos-u55-128")
MODELS = {"corstone-300": CORSTONE_300_U55, "corstone-320": CORSTONE_320}
Fake = Callable[..., Path]
Install = Callable[..., Path]


@pytest.fixture
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, file or descriptor outlives a test."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert list(folder.iterdir()) == []
    assert left_of(processes_with(str(folder).encode())) == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


@pytest.fixture
def use_launchers(launchers: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Targets find our launchers."""
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(launchers))
    return launchers


@pytest.fixture
def install(tmp_path: Path, launchers: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lets targets find a variant, and returns the folder that it is in."""

    def put(variant: FvpVariant, model: FvpModel = MODELS["corstone-300"]) -> Path:
        folder = tmp_path / "fvps"
        variant.install(folder, model, launchers)
        monkeypatch.setenv(FVP_PATH_VARIABLE, str(folder))
        return folder

    return put


@pytest.fixture
def fake(install: Install) -> Fake:
    """Makes an FVP out of a shell script, for targets to find. It lists no parameters.

    $uart is where its UART should go; it starts in the folder of semihosting.
    """
    listing = 'echo "unknown option --list-params"; exit 1'
    return lambda body, soc="corstone-300": install(FvpVariant(listing=listing, body=body), MODELS[soc])


def image_of(recorded: Recorded, soc: str = "corstone-300", repeat: int = 1) -> Image:
    """A packed image of a recorded program, with the link that an FVP gets."""
    plan = RunPlan(1, len(recorded.inputs), repeat, printable=True)
    return pack(find_firmware(soc), recorded.pte, [recorded.inputs], plan)


@pytest.fixture(scope="session")
def add_image() -> Image:
    """Of the program "add", for a Corstone-300."""
    return image_of(load("add", "corstone-300"))


def run_fvp(image: Image, timeout: float = 60.0) -> Outcome:
    """Run an image on the FVP that targets find, a Corstone-300."""
    target = FvpTarget("corstone-300", U55)
    target.load(image)
    return target.run(timeout=timeout)


def fails(run: Callable[[], object], kind: str, words: str = "") -> None:
    """Check that a run fails with an error of a kind that says these words."""
    with pytest.raises((TargetError, TargetNotAvailable)) as caught:
        run()
    assert caught.value.kind == kind, caught.value
    assert words in f"{caught.value.message} {caught.value.hint}"
