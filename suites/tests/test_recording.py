"""A recorded run is judged again without its target, but only if it still answers the question."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.harness.fvp_stand_in.tests.zeros import Zeros
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Run
from ethos_hil.harness.link.outcome_json import Arrays, outcome, outcome_to_json
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.suites.declare.profile import Profile, parse
from ethos_hil.suites.plugin.options import ANY_TEST
from ethos_hil.suites.tests import sample
from ethos_hil.suites.tests.session import ROOT, SAMPLE
from ethos_hil.suites.trial import declared
from ethos_hil.suites.trial.declared import DeclaredCase
from ethos_hil.suites.trial.run_trial import Trial, place

PROFILES = ("MI", "BI", "U55_BI", "U85_BI")


def case_in(profile: str) -> DeclaredCase:
    return DeclaredCase(parse(profile), SAMPLE, sample.plus, sample.plus.cases[1])


def archive(folder: Path, profile: str) -> Path:
    path = place(case_in(profile), folder, ROOT)
    return path.with_name(f"{path.name}.zip")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of each profile, made by running."""
    folder = tmp_path_factory.mktemp("recordings")
    for profile in PROFILES:
        record = Trial(case_in(profile), ANY_TEST, record=folder, root=ROOT).run()
        assert record.verdict == "verified", record.failure
    return folder


@pytest.fixture
def replay(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Record]:
    """Judge the recordings in `tmp_path`, copies of those above, where nothing can be lowered and QEMU is missing."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("ETHOS_HIL_QEMU", str(tmp_path / "absent"))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a replay lowers nothing")

    monkeypatch.setattr(declared.Declared, "lower", never)

    def judged(profile: str, test: DeclaredCase | None = None, **settings: object) -> Record:
        return Trial(test or case_in(profile), ANY_TEST.but(**settings), replay=tmp_path, root=ROOT).run()

    return judged


@pytest.mark.parametrize("profile", PROFILES)
def test_it_is_judged_as_when_it_ran(replay: Callable[..., Record], recordings: Path, profile: str) -> None:
    record = replay(profile)
    assert record.verdict == "verified"
    assert record.outputs
    assert all(output.mismatches == 0 for output in record.outputs)
    assert record.notes[-1].startswith("the answer was recorded")
    if profile.endswith("5_BI"):
        assert record.target.name == "virtual"
        cycles = record.metric("npu_cycles")
        assert cycles is not None
        assert sum(op.cycles or 0 for op in record.ops) == cycles.value > 0
    assert (record.firmware_sha256, record.timing_model) == ("", ""), "today's were not asked"


def test_a_wrapped_counter_is_recorded() -> None:
    for wrapped in (False, True):
        run = Run(0, 0, (), (DelegateRun(1, 0, 5, (None,), (), wrapped=wrapped),))
        arrays: Arrays = {}
        data = json.loads(json.dumps(outcome_to_json(Outcome(b"", b"", b"", 0, 0, {}, (run,), (), {}), arrays)))
        assert outcome(data, arrays).runs == (run,)


def failure_of(record: Record) -> tuple[str, str]:
    assert record.verdict == "failed"
    assert record.failure is not None
    return record.failure.kind, record.failure.message


def test_a_recording_that_is_not_there_fails(replay: Callable[..., Record], tmp_path: Path) -> None:
    archive(tmp_path, "BI").unlink()
    assert failure_of(replay("BI"))[0] == "no-recording"


@pytest.mark.parametrize("place_of_damage", [0.1, 0.5, 0.9])
def test_a_damaged_recording_fails(replay: Callable[..., Record], tmp_path: Path, place_of_damage: float) -> None:
    path = archive(tmp_path, "U55_BI")
    data = bytearray(path.read_bytes())
    at = int(len(data) * place_of_damage)
    data[at : at + 8] = bytes(byte ^ 0xFF for byte in data[at : at + 8])
    path.write_bytes(data)
    assert failure_of(replay("U55_BI"))[0] == "damaged-recording"


def test_a_recording_for_another_npu_is_stale(replay: Callable[..., Record]) -> None:
    other = dataclasses.replace(case_in("U55_BI"), profile=Profile("U55_BI", EthosU.parse("ethos-u55-256")))
    kind, message = failure_of(replay("U55_BI", other))
    assert kind == "stale-recording"
    assert "ethos-u55-128" in message
    assert "ethos-u55-256" in message


def test_a_recording_of_another_target_or_memory_mode_is_stale(replay: Callable[..., Record]) -> None:
    assert failure_of(replay("U55_BI", target="corstone-300"))[0] == "stale-recording"
    assert failure_of(replay("U55_BI", memory_mode="Sram_Only"))[0] == "stale-recording"
    assert failure_of(replay("U55_BI", strict=True))[0] == "stale-recording"
    assert failure_of(replay("U55_BI", strict_board=True))[0] == "stale-recording"


def rewritten(path: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    """Change a part of an archive, so that it stays a valid archive."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    parts[member] = change(parts[member])
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)


def test_a_recording_from_before_a_change_of_the_declaration_is_stale(
    replay: Callable[..., Record], tmp_path: Path
) -> None:
    """The recorded digest changes: the declaration is this repository's own."""

    def older(data: bytes) -> bytes:
        document = json.loads(data)
        document["files"]["suites/tests/sample.py"] = "0" * 64
        return json.dumps(document).encode()

    rewritten(archive(tmp_path, "MI"), "recording.json", older)
    assert failure_of(replay("MI")) == (
        "stale-recording",
        "plus_itself_MI.zip is stale: suites/tests/sample.py has changed",
    )


@pytest.mark.parametrize("names", [(), ("suites/tests/sample.py",)])
def test_a_recording_does_not_decide_what_makes_it_stale(
    replay: Callable[..., Record], tmp_path: Path, names: tuple[str, ...]
) -> None:
    """What the declaration imports today must be in it."""

    def emptied(data: bytes) -> bytes:
        document = json.loads(data)
        document["files"] = {name: document["files"][name] for name in names}
        return json.dumps(document).encode()

    rewritten(archive(tmp_path, "MI"), "recording.json", emptied)
    kind, message = failure_of(replay("MI"))
    assert (kind, message.endswith("is part of it")) == ("stale-recording", True)


def test_a_recording_made_with_other_compilers_is_stale(replay: Callable[..., Record], tmp_path: Path) -> None:
    def older(data: bytes) -> bytes:
        document = json.loads(data)
        document["asked"]["ethos-u-vela"] = "4.0.0"
        return json.dumps(document).encode()

    rewritten(archive(tmp_path, "U55_BI"), "recording.json", older)
    kind, message = failure_of(replay("U55_BI"))
    assert (kind, "ethos-u-vela was 4.0.0" in message) == ("stale-recording", True)


@pytest.mark.parametrize("profile", ["BI", "U55_BI"])
def test_a_wrong_answer_is_seen_in_a_recording_too(replay: Callable[..., Record], tmp_path: Path, profile: str) -> None:
    """The comparison is made again. The test changes an answer of the program's own outputs."""

    def wrong(data: bytes) -> bytes:
        with np.load(io.BytesIO(data)) as arrays:
            changed = {name: arrays[name] for name in arrays.files}
        name = "out.0" if profile == "BI" else "outcome.runs.0.outputs.0"
        changed[name] = changed[name] + 100
        stream = io.BytesIO()
        np.savez(stream, **changed)
        return stream.getvalue()

    rewritten(archive(tmp_path, profile), "arrays.npz", wrong)
    assert failure_of(replay(profile))[0] == ("accuracy" if profile == "BI" else "mismatch")


def test_a_run_that_fails_does_not_replace_a_good_recording(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    path = archive(tmp_path, "U55_BI")
    before = path.read_bytes()
    real = VirtualTarget.__init__
    monkeypatch.setattr(VirtualTarget, "__init__", functools.partialmethod(real, engine=Zeros))
    record = Trial(case_in("U55_BI"), ANY_TEST, record=tmp_path, root=ROOT).run()
    assert failure_of(record)[0] == "mismatch"
    assert path.read_bytes() == before
    fresh = path.with_name(f"{path.name}.new")
    assert fresh.exists()
    assert str(fresh) in record.notes[-1]
    # The wrong answer can be examined where there is no target, under the good one's name.
    fresh.replace(path)
    again = Trial(case_in("U55_BI"), ANY_TEST, replay=tmp_path, root=ROOT).run()
    assert again.failure == record.failure
    assert again.divergence == record.divergence
    assert not [left for left in path.parent.iterdir() if left.name.startswith(".")]


@pytest.mark.parametrize("how", ["bomb", "pipe", "link", "outside"])
def test_a_hostile_recording_is_damaged_and_writes_nothing(
    replay: Callable[..., Record], tmp_path: Path, how: str
) -> None:
    path = archive(tmp_path, "U55_BI")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        if how == "bomb":
            with file.open("artifact/zeros", "w") as member:
                for _ in range(1 + (100 * path.stat().st_size + (64 << 20) >> 20)):
                    member.write(bytes(1 << 20))
        elif how == "link":
            link = zipfile.ZipInfo("artifact/link")
            link.external_attr = 0o120777 << 16
            file.writestr(link, "/etc/passwd")
        elif how == "outside":
            file.writestr("artifact/../../../evil", "")
    if how == "pipe":
        path.unlink()
        os.mkfifo(path)
    kind, message = failure_of(replay("U55_BI"))
    assert kind == "damaged-recording"
    assert {"bomb": "unpacks to", "pipe": "named pipe", "link": "is a link", "outside": "is called"}[how] in message


@pytest.mark.slow
@pytest.mark.proof
def test_where_a_recording_is_does_not_depend_on_what_there_was_before(tmp_path: Path) -> None:
    """Without a configuration file pytest's root is a folder above the arguments that exist; `--record` makes one."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below/test_twice.py").write_text(
        "from ethos_hil.suites.declare.case import Operator, case, f32\n"
        "twice = Operator('twice', aten=('mul.Tensor',), cases=(case('one', lambda x: x * 2.0, f32(1, 4)),))\n"
    )
    os.utime(tmp_path / "below/test_twice.py", (0, 0))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--runs", str(tmp_path / "runs")]
    for how in ("--record", "--replay"):
        done = subprocess.run(
            [*command, str(tmp_path / "below"), "--suffix", "U55_BI", how, str(tmp_path / "recordings")],
            cwd="/",
            env={**os.environ, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert "1 verified" in done.stdout, done.stdout + done.stderr
