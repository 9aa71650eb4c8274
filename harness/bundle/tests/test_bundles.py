"""A run becomes one file, and the file shows the same elsewhere: on a target, or by the answer that is recorded."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from ethos_hil.base.record import Record, RunnerInfo, SuiteTest, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bundle.archive import pack
from ethos_hil.harness.bundle.make import choose
from ethos_hil.harness.bundle.run_bundle import RunBundle
from ethos_hil.harness.bundle.tests.conftest import MONITOR, FailedRun
from ethos_hil.harness.testing.command import Ended, Run, assert_one_clear_line, check_errors, run_command
from ethos_hil.harness.testing.without import run_without
from ethos_hil.harness.virtual.tests.programs import DATA, load
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.results.store import RunFolder, StoredRecord, read_run


def record_of(run: Path) -> Record:
    (item,) = read_run(run)
    assert isinstance(item, StoredRecord), item
    return item.record


def shown(record: dict[str, object]) -> dict[str, object]:
    """What somebody elsewhere has to see again."""
    return {name: record[name] for name in ("verdict", "failure", "divergence", "outputs", "ops", "model", "npu")}


def test_a_failure_shows_again_elsewhere(failed: FailedRun, tmp_path: Path) -> None:
    (tmp_path / "sent.zip").write_bytes(failed.data)
    elsewhere = {"HOME": str(tmp_path), "ETHOS_HIL_CACHE": str(tmp_path / "empty")}
    result = run_command("run", "sent.zip", "--json", "r.json", cwd=tmp_path, environment=elsewhere)
    assert result.status == 1, result.err
    assert result.out.startswith("failed  ")
    record = json.loads((tmp_path / "r.json").read_text())
    assert shown(record) == shown(json.loads(failed.files["record.json"]))
    assert record["failure"]["kind"] == "mismatch"
    assert "it ended as the run in sent.zip" in record["notes"]
    assert not any("differ from the bundle's" in note for note in record["notes"])
    assert not (tmp_path / "empty/v14").exists(), "nothing was lowered"


def test_a_replay_needs_neither_torch_nor_executorch_nor_a_target(failed: FailedRun, tmp_path: Path) -> None:
    (tmp_path / "sent.zip").write_bytes(failed.data)
    environment = {"ETHOS_HIL_QEMU": "/absent", "ETHOS_HIL_FIRMWARE": "/absent"}
    absent, words = ("torch", "torchao", "executorch.*"), ("run", "sent.zip", "--replay", "--json", "r.json")
    result = run_without(absent, *words, cwd=tmp_path, environment=environment)
    assert result.returncode == 1, result.stderr
    record = json.loads((tmp_path / "r.json").read_text())
    assert shown(record) == shown(json.loads(failed.files["record.json"]))
    assert "the answer was recorded when the bundle was made" in record["notes"]


def test_the_same_run_makes_the_same_bytes(failed: FailedRun, tmp_path: Path) -> None:
    result = run_command("bundle", failed.folder, MONITOR, "-o", "b.zip", cwd=tmp_path)
    assert result.status == 0
    assert (tmp_path / "b.zip").read_bytes() == failed.data
    assert "did not end alike" not in result.err


def test_lines_are_those_of_the_run_though_the_code_has_moved_since(
    ethos_hil: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the same program, and the cache, which is this test's own, has that of the newest lines."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    source = Path(MONITOR.partition(":")[0]).read_text()
    places = []
    for folder, text in (("first", source), ("second", "\n" + source)):
        (here / "moved.py").write_text(text)
        status = ethos_hil(
            "run", "moved.py:monitor", "--npu", "ethos-u55-128", "--as-upstream", "--runs", folder
        ).status
        assert status == 1
        (run,) = Path(folder).iterdir()
        places.append([op.source for op in record_of(run).ops])
    assert len({*places[0]} - {*places[1]}) == 1
    (run,) = Path("first").iterdir()
    artifact = record_of(run).artifact
    assert artifact is not None
    for evicted in (False, True):
        if evicted:
            shutil.rmtree(Cache().root / "artifacts" / artifact.key)
        assert ethos_hil("bundle", str(run), "-o", f"{evicted}.zip").status == 0
        assert ethos_hil("run", f"{evicted}.zip", "--replay", "--json", f"{evicted}.json").status == 1
        ops = json.loads(Path(f"{evicted}.json").read_text())["ops"]
        assert [op["source"] for op in ops] == places[0]


def test_what_differs_here_is_said(failed: FailedRun, ethos_hil: Run, here: Path) -> None:
    record = json.loads(failed.files["record.json"])
    record |= {"versions": {**record["versions"], "ethos-u-vela": "4.4.0"}, "firmware_sha256": "ab" * 32}
    (here / "old.zip").write_bytes(pack(failed.files | {"record.json": json.dumps(record).encode()}, failed.facts))
    assert ethos_hil("run", "old.zip", "--json", "r.json").status == 1
    notes = json.loads((here / "r.json").read_text())["notes"]
    assert any("the firmware here" in note and "abababababab" in note for note in notes)
    assert "versions differ from the bundle's: ethos-u-vela 4.4.0, here 5.1.0" in notes


def test_a_bundle_says_itself_what_runs(failed: FailedRun, ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "sent.zip").write_bytes(failed.data)
    check_errors(recorded, ethos_hil, "run sent.zip", [
        "--npu ethos-u55-256", "--target nowhere", "--inputs x.npz", "--memory-mode Sram_Only", "--as-upstream",
        "--replay --target virtual", "--replay --strict", "--json sent.zip",
    ], lowers=True)  # fmt: skip
    assert (here / "sent.zip").read_bytes() == failed.data
    # And only a bundle is replayed, and only a run is bundled.
    check_errors(recorded, ethos_hil, "run", ["net.py:net --replay", "nowhere.zip"])
    check_errors(recorded, ethos_hil, "bundle", ["absent", ".", "net.py"])


@pytest.fixture
def foreign(here: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[np.ndarray], np.ndarray]:
    """A program of which no cache knows the model, as other tests may have lowered it: its inputs, and its answer."""
    shutil.copy(DATA / "add.pte", here / "add.pte")
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(here / "empty"))
    recorded = load("add")
    (answer,) = recorded.outputs
    return [np.frombuffer(data, np.float32).reshape(answer.shape) for data in recorded.inputs], answer


def test_a_verified_program_with_the_users_data(
    ethos_hil: Run, here: Path, foreign: tuple[list[np.ndarray], np.ndarray]
) -> None:
    """Several input sets and executions, and outputs that the user says are right; all of them are in the bundle."""
    inputs, answer = foreign
    np.savez(here / "x.npz", *(np.stack([array, array]) for array in inputs))
    np.savez(here / "y.npz", np.stack([answer, answer]))
    arguments = ("run", "add.pte", "--inputs", "x.npz", "--expected", "y.npz", "--repeat", "3", "--runs", "runs")
    assert ethos_hil(*arguments).status == 0
    (run,) = (here / "runs").iterdir()
    assert ethos_hil("bundle", run) == Ended(0, "failure.zip\n", ANY)
    bundle = RunBundle.read(here / "failure.zip")
    assert (len(bundle.input_sets), bundle.question.repeat, len(bundle.expected or ())) == (2, 3, 2)
    for name in ("add.pte", "x.npz", "y.npz"):
        (here / name).unlink()
    for options in ((), ("--replay",)):
        again = ethos_hil("run", "failure.zip", "--json", "r.json", "--runs", "other", *options)
        assert again.status == 0, again.err
        record = json.loads((here / "r.json").read_text())
        assert (record["verdict"], record["executions"]) == ("verified", 6)
        assert "it ended as the run in failure.zip" in record["notes"]
    assert_one_clear_line(ethos_hil("bundle", run, "-o", "b.zip"), 2, "add.pte")
    assert not (here / "b.zip").exists()


def test_inputs_and_expected_outputs_that_are_gone(
    ethos_hil: Run, here: Path, foreign: tuple[list[np.ndarray], np.ndarray]
) -> None:
    arrays, answer = foreign
    np.savez(here / "x.npz", *arrays)
    np.savez(here / "y.npz", answer)
    assert ethos_hil("run", "add.pte", "--inputs", "x.npz", "--expected", "y.npz", "--json", "r.json").status == 0
    for name in ("x.npz", "y.npz"):
        (here / name).rename(here / f"moved-{name}")
    np.savez(here / "z.npz", *(array + 1 for array in arrays))
    assert_one_clear_line(ethos_hil("bundle", "r.json"), 2, "no such inputs file: x.npz", "--inputs X.npz")
    assert_one_clear_line(ethos_hil("bundle", "r.json", "--inputs", "z.npz"), 2, "z.npz are other inputs")
    assert_one_clear_line(ethos_hil("bundle", "r.json", "--inputs", "moved-x.npz"), 2, "y.npz")
    assert not (here / "failure.zip").exists()
    files = ("--inputs", "moved-x.npz", "--expected", "moved-y.npz")
    assert ethos_hil("bundle", "r.json", *files, "--no-run").status == 0
    assert_one_clear_line(ethos_hil("run", "failure.zip", "--replay"), 2, "no recorded answer")
    assert ethos_hil("run", "failure.zip").status == 0
    assert_one_clear_line(ethos_hil("bundle", "r.json", "-o", "r.json"), 2, "--output and RUN are the same file")


@pytest.mark.usefixtures("foreign")
def test_a_run_without_an_answer(ethos_hil: Run, here: Path) -> None:
    arguments = ("run", "add.pte", "--repeat", "1000000", "--timeout", "0.1", "--runs", "runs")
    assert ethos_hil(*arguments).status == 1
    (run,) = (here / "runs").iterdir()
    assert record_of(run).failure.kind is FailureKind.TIMEOUT  # type: ignore[union-attr]
    assert ethos_hil("bundle", run).status == 0
    assert RunBundle.read(here / "failure.zip").question.repeat == 1_000_000
    again = ethos_hil("run", "failure.zip", "--timeout", "0.1")
    assert_one_clear_line(again, 1, "no end within 0.1 s", "it ended as the run in failure.zip")
    assert_one_clear_line(ethos_hil("run", "failure.zip", "--replay"), 2, "no recorded answer")


def test_an_answer_that_does_not_come_again_is_said(failed: FailedRun, ethos_hil: Run, here: Path) -> None:
    record = record_of(failed.folder)
    flaky = replace(record, failure=Failure(FailureKind.FAULT, "HardFault at 0x10"), outputs=(), divergence=None)
    (here / "r.json").write_text(json.dumps(flaky.to_json()))
    result = ethos_hil("bundle", "r.json")
    assert result.status == 0
    assert "did not end alike" in result.err
    assert "HardFault" in result.err
    assert RunBundle.read(here / "failure.zip").record.failure == flaky.failure
    assert ethos_hil("run", "failure.zip", "--json", "r.json").status == 1
    notes = json.loads((here / "r.json").read_text())["notes"]
    assert any("which is failed (fault): HardFault" in note for note in notes)


@pytest.fixture
def night(failed: FailedRun, here: Path) -> Path:
    """A run folder with records of several tests."""
    folder = RunFolder(here / "runs", name="night")
    record = record_of(failed.folder)
    assert record.artifact is not None
    changes: dict[str, dict[str, Any]] = {
        "test_a": {},
        "test_b": {"verdict": Verdict.VERIFIED, "failure": None},
        "test_b_wide": {},
        "test_host": {"target": TargetInfo("tosa_reference_model", "host", ""), "npu": ""},
        "test_own_elf": {"runner": RunnerInfo("my.elf", "ab")},
        "test_none": {"artifact": None, "failure": Failure(FailureKind.COMPILE, "no")},
        "test_gone": {"artifact": replace(record.artifact, sha256="ab" * 32)},
    }
    for name, changed in changes.items():
        test = SuiteTest(f"suites/t.py::{name}", "a", "b", "U55_BI", "suites/t.py:1")
        folder.append(replace(record, test=test, **changed))
    return folder.path


@pytest.mark.usefixtures("night")
def test_what_cannot_be_bundled_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "bundle runs/night", [
        "", "test_", "conv", "test_host", "test_own_elf", "test_none", "test_a -o absent/b.zip",
    ], lowers=True)  # fmt: skip
    gone = ethos_hil("bundle", "runs/night", "test_gone")
    assert_one_clear_line(gone, 2, "abababababab", "no longer in the cache", "pytest suites/t.py::test_gone")


def test_a_record_of_a_run_is_named_by_a_part_of_its_name(night: Path) -> None:
    for text, name in (("test_a", "test_a"), ("suites/t.py::test_b", "test_b"), ("wide", "test_b_wide")):
        test = choose(night, text).record.test
        assert test is not None
        assert test.id == f"suites/t.py::{name}"


def test_a_program_is_found_in_the_cache_of_its_run(
    failed: FailedRun, ethos_hil: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of tests often has a cache of its own; its run folder says where."""
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(here / "empty"))
    assert ethos_hil("bundle", failed.folder.parent).status == 0
    assert (here / "failure.zip").read_bytes() == failed.data
