"""The cache: an entry is used only when it is whole, made only once, and nothing half-written is ever seen."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import shown
from ethos_hil.lowering.artifact import SCHEMA_VERSION, Artifact, Delegate, NpuOp
from ethos_hil.lowering.cache.contents import CacheContents
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.conftest import DATA
from ethos_hil.lowering.vela.memory_mode import MemoryMode

KEY = "ab" * 32


def make_artifact(key: str = KEY) -> Artifact:
    plain = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    op = NpuOp(
        "npu00000", "Add", 300, "ADD", ("aten.add.Tensor",), "", "net.py:3", (4, 5), 120, "sum", 3, ("net.py:3",)
    )
    summary: dict[str, float | str] = {"cycles_total": 120.0, "memory_mode": "M"}
    delegate = Delegate(
        0, 2, b"TOSA bytes", plain.delegates[0].vela, (op,), summary, b"rewritten", ("vela-some-defect",)
    )
    return Artifact(
        key=key,
        model="net.py:add",
        npu=EthosU.parse("ethos-u55-128"),
        pte=plain.pte,
        delegates=(delegate,),
        example_inputs=(np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3), np.ones((1, 4, 4, 3), np.float32)),
        input_names=("x", "y"),
        versions={"torch": "2.13.0"},
        vela_flags=("--accelerator-config=ethos-u55-128",),
        notes=("a pool was completed",),
        delegated=("aten.add.Tensor",),
        memory_mode=MemoryMode("Sram_Only"),
    )


def never() -> Artifact:
    raise AssertionError("the artifact was made again")


def same(a: Artifact, b: Artifact) -> bool:
    return shown(a) == shown(b)


def entry(cache: Cache) -> Path:
    return cache.root / "artifacts" / KEY


@pytest.fixture
def filled(tmp_path: Path) -> Cache:
    """A cache of one entry."""
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    assert not cache.get_or_make(KEY, make_artifact)[1]
    return cache


def test_an_artifact_comes_back_as_it_was(filled: Cache) -> None:
    artifact = make_artifact()
    again, hit = filled.get_or_make(KEY, never)
    assert hit
    assert same(again, artifact)
    by_pte = filled.find_by_pte(artifact.sha256)
    assert by_pte is not None
    assert same(by_pte, artifact)
    assert filled.find_by_pte("0" * 64) is None


NAMES = [
    *("model.pte", "delegate-0.vela", "delegate-0.tosa", "delegate-0.compiled.tosa", "artifact.json", "SHA256SUMS"),
    *(f"{name}.npz" for name in ("example_inputs", "floating", "quantised", "allowed")),
]


def test_the_damage_tests_cover_every_file(filled: Cache) -> None:
    assert sorted(path.name for path in entry(filled).iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "flipped"])
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_entry_is_made_again(filled: Cache, name: str, damage: str) -> None:
    path = entry(filled) / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]
        path.write_bytes({"empty": b"", "short": data[:-1], "flipped": flipped}[damage])
    assert filled.get(KEY) is None
    assert filled.find_by_pte(make_artifact().sha256) is None
    again, hit = filled.get_or_make(KEY, make_artifact)
    assert not hit
    assert same(again, make_artifact())
    assert filled.get_or_make(KEY, never)[1]
    assert [path.name for path in (filled.root / "artifacts").iterdir()] == [KEY]


def test_an_entry_under_another_key_is_not_used(filled: Cache) -> None:
    other = "cd" * 32
    entry(filled).rename(filled.root / "artifacts" / other)
    assert filled.get(other) is None


def test_an_entry_names_no_files_outside_itself(filled: Cache) -> None:
    digests = entry(filled) / "SHA256SUMS"
    digests.write_text(f"{'0' * 64}  ../../../etc/hostname\n{digests.read_text()}")
    with pytest.raises(UsageError, match="names files elsewhere"):
        Artifact.load(entry(filled))


WRONG_FIELDS: tuple[dict[str, Any], ...] = (
    *({"npu": 5}, {"npu": [[]]}, {"methods": None}, {"methods": []}, {"methods": [None]}),
    *({"memory_mode": True}, {"tosa": 1.5}, {"notes": 5}, {"vela_flags": None}, {"schema_version": 99}),
)


@pytest.mark.parametrize(
    "manifest", [*WRONG_FIELDS, "[" * 100_000, "[]", "5", "no JSON", '"text"'], ids=lambda value: str(value)[:40]
)
def test_an_entry_whose_digests_are_right_may_still_be_no_artifact(
    filled: Cache, manifest: dict[str, Any] | str
) -> None:
    """Another program, or another person, may have written it."""
    file, sums = entry(filled) / "artifact.json", entry(filled) / "SHA256SUMS"
    right = json.loads(file.read_text())
    assert right["schema_version"] == SCHEMA_VERSION
    file.write_text(manifest if isinstance(manifest, str) else json.dumps(right | manifest))
    others = [line for line in sums.read_text().splitlines() if not line.endswith("  artifact.json")]
    sums.write_text("\n".join([f"{hashlib.sha256(file.read_bytes()).hexdigest()}  artifact.json", *others]) + "\n")
    with pytest.raises(UsageError, match="schema version 99" if "schema" in str(manifest) else "not a usable artifact"):
        Artifact.load(entry(filled))


HEAD = """
import os, resource, signal, sys, time
from pathlib import Path
from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.test_cache import KEY, make_artifact
root = Path(sys.argv[1])
"""
MAKER = f"""{HEAD}
log = Path(sys.argv[2])
def make():
    with log.open("a") as stream:
        stream.write("made\\n")
    time.sleep(0.5)
    return make_artifact()
artifact, hit = Cache(root).get_or_make(KEY, make)
assert artifact.npu_ops
"""


def test_three_processes_make_it_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path / "cache"), str(tmp_path / "log")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "made\n"


# Dies at an operation on files of the cache, by number: before it opens, makes, renames or removes something there.
DIES = f"""{HEAD}
moment, count, EVENTS = int(sys.argv[2]), 0, ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
def hook(event, arguments):
    global count
    if event in EVENTS and str(arguments[0]).startswith(sys.argv[1]):
        count += 1
        if count == moment:
            os.kill(os.getpid(), 9)
sys.addaudithook(hook)
Cache(root).get_or_make(KEY, make_artifact)
print(count)
"""


def test_a_process_killed_at_any_moment_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    def run(folder: Path, moment: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", DIES, str(folder), str(moment)]
        return subprocess.run(command, timeout=300, capture_output=True, text=True, check=False)

    operations = int(run(tmp_path / "whole", 0).stdout)
    assert operations >= 20
    for moment in range(1, operations + 1, operations // 10):
        folder = tmp_path / str(moment)
        assert run(folder, moment).returncode == -signal.SIGKILL
        cache = Cache(folder)
        entry = cache.get(KEY)
        assert entry is None or same(entry, make_artifact())
        artifact, _ = cache.get_or_make(KEY, make_artifact)
        assert same(artifact, make_artifact())
        if entry is None:
            assert [path.name for path in (cache.root / "artifacts").iterdir()] == [KEY], moment
        CacheContents(folder).clear()
        assert not [path for path in cache.root.rglob("*") if path.is_file()], moment


FULL = f"""{HEAD}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    Cache(root).get_or_make(KEY, make_artifact)
except ToolError as error:
    print(error.kind, error.exit_status, error.message, "|", error.hint)
"""


def test_a_disk_that_takes_no_more_is_one_clear_error(tmp_path: Path) -> None:
    # -B: Python 3.11 does not notice that a file took only a part of its bytecode, and keeps the part.
    command = [sys.executable, "-B", "-c", FULL, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"cache 3 the cache in {tmp_path}/v{SCHEMA_VERSION} cannot be written: File too large")
    assert "free some space" in run.stdout
    assert list((tmp_path / f"v{SCHEMA_VERSION}" / "artifacts").iterdir()) == []
    assert Cache(tmp_path).get(KEY) is None


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot be written: Not a directory") as caught:
        Cache(tmp_path / "file" / "cache").get_or_make(KEY, make_artifact)
    assert caught.value.hint == "set ETHOS_HIL_CACHE to a folder that you can write", "space is not what it lacks"


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "here"))
    assert Cache().root.parent == tmp_path / "here"
    monkeypatch.delenv("ETHOS_HIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache().root.parent == tmp_path / "xdg" / "ethos-hil"
