"""The cache: an entry is used only when it is whole, made only once, and nothing half-written is ever seen. At its
limit what was not used for longest goes, whole, whatever other processes do at the time.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from ethos_hil.base import byte_size
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.testing.recorded import shown
from ethos_hil.lowering.artifact import SCHEMA_VERSION, Artifact, Delegate, NpuOp
from ethos_hil.lowering.cache.contents import DEFAULT_LIMIT, CacheContents, Removed, cache_limit, discard
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.conftest import DATA, U55
from ethos_hil.lowering.vela.memory_mode import MemoryMode

KEY = "ab" * 32


def make_artifact(key: str = KEY) -> Artifact:
    plain = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    names, line = ("aten.add.Tensor",), "net.py:3"
    op = NpuOp("npu00000", "Add", 300, "ADD", names, "", line, (4, 5), 120, "sum", 3, (line,))
    summary: dict[str, float | str] = {"cycles_total": 120.0, "memory_mode": "M"}
    parts = plain.delegates[0].vela, (op,), summary, b"rewritten", ("vela-some-defect",)
    inputs = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3), np.ones((1, 4, 4, 3), np.float32)
    return Artifact(
        key, "net.py:add", U55, plain.pte, (Delegate(0, 2, b"TOSA bytes", *parts),), input_names=("x", "y"),
        example_inputs=inputs,
        versions={"torch": "2.13.0"}, vela_flags=("--accelerator-config=ethos-u55-128",), delegated=names,
        notes=("a pool was completed",), memory_mode=MemoryMode("Sram_Only"),
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ("name", "damage"),
    [*product(NAMES, ("missing", "empty", "short", "flipped")), ("model.pte", "a pipe"), ("SHA256SUMS", "a pipe")],
)
def test_a_damaged_entry_is_made_again(filled: Cache, name: str, damage: str) -> None:
    path = entry(filled) / name
    assert {file.name for file in path.parent.iterdir()} == set(NAMES), "each file is damaged once"
    data = path.read_bytes()
    if damage in ("missing", "a pipe"):
        path.unlink()
        if damage == "a pipe":
            os.mkfifo(path)
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


def test_an_entry_under_another_key_is_not_used_and_none_names_files_outside_itself(filled: Cache) -> None:
    digests = entry(filled) / "SHA256SUMS"
    text = digests.read_text()
    digests.write_text(f"{'0' * 64}  ../../../etc/hostname\n{text}")
    with pytest.raises(UsageError, match="names files elsewhere"):
        Artifact.load(entry(filled))
    digests.write_text(text)
    other = "cd" * 32
    entry(filled).rename(filled.root / "artifacts" / other)
    assert filled.get(other) is None


def test_a_dead_link_in_an_entrys_place_is_replaced_and_the_users_umask_is_kept(filled: Cache) -> None:
    discard(entry(filled))
    entry(filled).symlink_to("nowhere")
    before = os.umask(0o027)
    try:
        filled.get_or_make(KEY, make_artifact)
    finally:
        os.umask(before)
    assert filled.get_or_make(KEY, never)[1]
    assert entry(filled).stat().st_mode & 0o777 == 0o750


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
from ethos_hil.lowering.tests.test_cache import KEY, make_artifact, same
root = Path(sys.argv[1])
"""
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


# --- The limit.

KEYS = [f"{number:064x}" for number in range(6)]
HUGE = 10**12


def add(folder: Path, key: str, limit: int = HUGE) -> bool:
    """Whether it was there already."""
    return Cache(folder, limit).get_or_make(key, lambda: make_artifact(key))[1]


def there(folder: Path) -> list[str]:
    return [path.name for path in sorted((Cache(folder).root / "artifacts").iterdir())]


def size_of_one(folder: Path) -> int:
    """Bytes on disk of each of the entries, which are alike."""
    return max(entry.size for entry in CacheContents(folder).entries())


def noted(folder: Path) -> int:
    return int((folder / "size").read_text())


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A cache with KEYS[0:4], the first used longest ago."""
    for key in KEYS[:4]:
        add(tmp_path, key)
    return tmp_path


def test_what_is_counted_is_what_is_there(full: Path) -> None:
    entries = CacheContents(full).entries()
    assert [entry.path.name for entry in entries] == KEYS[:4]
    assert noted(full) == sum(entry.size for entry in entries)
    for entry in entries:
        files = [path.stat() for path in entry.path.iterdir()]
        assert sum(file.st_size for file in files) <= entry.size <= sum(file.st_size + 4095 for file in files)


def test_the_one_not_used_for_longest_goes_when_the_limit_is_passed(full: Path) -> None:
    assert Cache(full).get(KEYS[0]) is not None  # now the others are older
    add(full, KEYS[4], limit=5 * size_of_one(full))
    assert there(full) == KEYS[:5], "it is not passed yet"
    add(full, KEYS[5], limit=int(4.5 * size_of_one(full)))
    assert there(full) == [KEYS[0], *KEYS[3:6]]
    assert noted(full) == 4 * size_of_one(full)
    add(full, KEYS[1], limit=1)
    assert there(full) == [KEYS[1]], "a new entry stays although it is larger than the limit"
    assert add(full, KEYS[1])


def test_entries_are_not_counted_again_for_each_that_is_added(full: Path) -> None:
    """What `size` says is believed as long as it is below the limit, and counted again when it is not."""
    size = size_of_one(full)
    (full / "size").write_text("1000\n")
    add(full, KEYS[4], limit=2 * size)
    assert (noted(full), there(full)) == (1000 + size, KEYS[:5])
    (full / "size").write_text(f"{9 * size}\n")
    add(full, KEYS[5], limit=7 * size)
    assert (noted(full), there(full)) == (6 * size, KEYS)


@pytest.mark.parametrize("content", [None, "", "text"])
def test_a_count_that_is_lost_is_made_again(full: Path, content: str | None) -> None:
    (full / "size").unlink()
    if content is not None:
        (full / "size").write_text(content)
    add(full, KEYS[4])
    assert noted(full) == 5 * size_of_one(full)


def test_what_points_to_an_entry_goes_with_it_and_not_before(full: Path) -> None:
    cache, sha256 = Cache(full), make_artifact().sha256
    assert (cache.root / "by-pte" / sha256).read_text().strip() == KEYS[3]
    CacheContents(full).trim(size_of_one(full))
    assert there(full) == [KEYS[3]]
    assert cache.find_by_pte(sha256) is not None
    before = noted(full)
    assert CacheContents(full).trim(0) == Removed(1, before)
    assert cache.find_by_pte(sha256) is None
    assert not list((cache.root / "by-pte").iterdir())
    assert not list((cache.root / "locks").iterdir())
    add(full, KEYS[0])
    (cache.root / "by-pte" / sha256).unlink()
    os.mkfifo(cache.root / "by-pte" / sha256)
    assert cache.find_by_pte(sha256) is None, "a pipe is not waited for"
    assert CacheContents(full).trim(0).entries == 1


def test_an_entry_that_is_being_made_stays(full: Path) -> None:
    locks = Cache(full).root / "locks"
    with FileLock(locks / f"{KEYS[0]}.lock"):
        removed = CacheContents(full).trim(0)
    assert removed.entries == 3
    assert there(full) == [KEYS[0]]
    assert noted(full) == size_of_one(full)


def test_entries_of_an_older_format_count_and_go_first(full: Path) -> None:
    size = size_of_one(full)
    old = full / "v1"
    Cache(full).root.rename(old)
    assert Cache(full).get(KEYS[0]) is None
    add(full, KEYS[4], limit=3 * size)
    assert there(full) == [KEYS[4]]
    assert [path.name for path in sorted((old / "artifacts").iterdir())] == [KEYS[3]]


def test_what_a_process_left_half_written_is_swept_and_what_one_is_writing_is_not(full: Path) -> None:
    folder = Cache(full).root / "artifacts"
    for key in (KEYS[4], KEYS[5]):
        (folder / f".{key}.abc").mkdir()
        (folder / f".{key}.abc/model.pte").write_bytes(b"half")
    with FileLock(Cache(full).root / "locks" / f"{KEYS[5]}.lock"):
        CacheContents(full).trim(HUGE)
    assert there(full) == [f".{KEYS[5]}.abc", *KEYS[:4]]


def test_clear_leaves_other_files_and_empty_folders(full: Path) -> None:
    root = Cache(full).root
    for folder in (full / "vacation", root / "artifacts/notes", root / "cases"):
        folder.mkdir()
    (full / "vacation/photograph").write_text("")
    (root / "cases/one").write_text("{}")
    assert CacheContents(full).clear().entries == 4
    assert there(full) == ["notes"]
    assert not [path for path in root.rglob("*") if path.is_file()]
    assert (full / "vacation/photograph").exists()
    assert CacheContents(full / "absent").clear() == Removed()
    assert not (full / "absent").exists()


def test_a_folder_that_cannot_be_written_or_read_is_one_clear_error(full: Path) -> None:
    (full / "size").unlink()
    os.mkfifo(full / "size")
    with pytest.raises(ToolError, match="cannot be written: it is a named pipe that no program reads"):
        add(full, KEYS[4])
    (full / "size").unlink()
    (full / "size").mkdir()
    (full / "size/x").touch()
    with pytest.raises(ToolError, match=f"the cache in {full} cannot be written"):
        CacheContents(full).trim(0)
    (full / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=r"the cache in .*loop cannot be read: Too many levels"):
        CacheContents(full / "loop").entries()


def test_something_else_in_the_place_of_an_entry_can_be_listed_and_removed(full: Path) -> None:
    artifacts = Cache(full).root / "artifacts"
    entries = CacheContents(full).entries()
    for entry in entries:
        discard(entry.path)
    entries[0].path.write_text("no folder")
    entries[1].path.symlink_to("nowhere")
    entries[2].path.symlink_to(full)
    assert {entry.path for entry in CacheContents(full).entries()} == {entry.path for entry in entries[:3]}
    assert CacheContents(full).clear().entries == 3
    assert list(artifacts.iterdir()) == []
    assert (full / "size").is_file(), "a link is removed, not what it leads to"


# --- Several processes. ---

WRITER = f"""{HEAD}
def make():
    with (root / "made").open("a") as stream:
        stream.write(key + "\\n")
    time.sleep(0.5 if int(key, 16) == 4 else 0)
    return make_artifact(key)
for number in range(20):
    key = f"{{int(sys.argv[2]) * number:064x}}"
    artifact, _ = Cache(root, int(sys.argv[3])).get_or_make(key, make)
    assert same(artifact, make_artifact(key))
"""


@pytest.mark.parametrize("fit", [5, 500])
def test_processes_that_add_at_once_make_each_once_and_keep_the_limit_and_the_count(full: Path, fit: int) -> None:
    limit = fit * size_of_one(full)
    # They add the same entries and others: the multiples of 2, of 3 and of 4.
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(full), str(n), str(limit)]) for n in (2, 3, 4)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    made = (full / "made").read_text().split()
    assert fit == 5 or len(made) == len(set(made)), "where all fit, none is made again"
    entries = CacheContents(full).entries()
    # An entry may be counted twice: by the process that made it, and by one that counted all at that moment.
    assert sum(entry.size for entry in entries) <= noted(full) <= limit
    assert all(Cache(full).get(entry.path.name) is not None for entry in entries)


SIZES = (
    ("10GB", 10**10, "10.0 GB"), ("500 mb", 5 * 10**8, "500.0 MB"), ("1.5GiB", 3 * 2**29, "1.6 GB"),
    ("4096", 4096, "4.1 kB"), ("0", 0, "0 bytes"), ("999", 999, "999 bytes"), (" 2kB ", 2000, "2.0 kB"),
    ("3000TB", 3 * 10**15, "3000.0 TB"),
)  # fmt: skip


def test_a_size_is_read_and_shown_and_what_is_none_is_refused() -> None:
    for text, size, words in SIZES:
        assert (byte_size.parse(text, "--limit"), byte_size.show_size(size)) == (size, words)
    for text in ("", "much", "-1GB", "10XB", "1e9", "1,5GB", "GB", "٣GB"):
        with pytest.raises(UsageError, match=r"--limit .* is not a size") as raised:
            byte_size.parse(text, "--limit")
        assert raised.value.hint == "give a number and a unit, such as 10GB or 500MB"


def test_the_environment_names_the_folder_and_sets_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "here"))
    assert Cache().root.parent == tmp_path / "here"
    monkeypatch.delenv("ETHOS_HIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache().root.parent == tmp_path / "xdg" / "ethos-hil"
    monkeypatch.delenv("ETHOS_HIL_CACHE_LIMIT", raising=False)
    assert cache_limit() == DEFAULT_LIMIT
    monkeypatch.setenv("ETHOS_HIL_CACHE_LIMIT", "1")
    for key in KEYS[:2]:
        Cache(tmp_path).get_or_make(key, lambda key=key: make_artifact(key))  # type: ignore[misc]
    assert there(tmp_path) == [KEYS[1]]
    monkeypatch.setenv("ETHOS_HIL_CACHE_LIMIT", "plenty")
    with pytest.raises(UsageError, match="ETHOS_HIL_CACHE_LIMIT 'plenty' is not a size"):
        Cache(tmp_path)
