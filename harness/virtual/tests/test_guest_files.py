"""The bounds of what a guest opens, makes and writes, and the fence around its folder while somebody moves it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.harness.virtual import guest_files
from ethos_hil.harness.virtual.guest_files import FileCall, FileServer, GuestFiles, OpenFlag, Refused

READ = OpenFlag.READ_ONLY
WRITE = OpenFlag.WRITE_ONLY | OpenFlag.CREATE | OpenFlag.TRUNCATE
APPEND = OpenFlag.WRITE_ONLY | OpenFlag.CREATE | OpenFlag.APPEND


@pytest.fixture
def files(tmp_path: Path) -> Iterator[GuestFiles]:
    guest = GuestFiles(tmp_path)
    yield guest
    guest.stop()


def test_a_run_writes_only_so_much(files: GuestFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_files, "MAX_BYTES", 100)
    first, second = files.open(b"a", WRITE), files.open(b"b", WRITE)
    files.write(first, bytes(60))
    with pytest.raises(Refused) as refused:
        files.write(second, bytes(41))
    assert refused.value.errno == errno.ENOSPC
    files.write(second, bytes(40))
    assert files.size(second) == 40
    assert files.refusals == ["the program may not write: a run writes 0 MiB at most"]


def test_a_run_makes_only_so_many_files(files: GuestFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_files, "MAX_CREATED", 3)
    for number in range(3):
        files.close(files.open(b"%d" % number, WRITE))
    with pytest.raises(Refused, match="3 files were made"):
        files.open(b"3", WRITE)
    files.close(files.open(b"0", WRITE))  # it is there already


def test_refusals_are_counted_but_not_kept_without_end(files: GuestFiles) -> None:
    for number in range(1000):
        with pytest.raises(Refused):
            files.open(b"../%d" % number, READ)
    assert len(files.refusals) == guest_files.MAX_REMEMBERED + 1
    assert files.refusals[-1] == "and 980 more refusals"


def test_a_folder_that_becomes_a_link_is_not_followed(files: GuestFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else puts a link there between the look at the name and the opening."""
    outside = files.folder.parent / f"{files.folder.name}-outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (files.folder / "sub").mkdir()
    resolve = Path.resolve

    def then_move(path: Path, strict: bool = False) -> Path:
        result = resolve(path, strict)
        if path.name == "secret":
            (files.folder / "sub").rmdir()
            (files.folder / "sub").symlink_to(outside)
        return result

    monkeypatch.setattr(Path, "resolve", then_move)
    with pytest.raises(OSError) as caught:
        files.open(b"sub/secret", READ)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_links_in_a_circle_and_too_many_links_are_an_error(files: GuestFiles) -> None:
    (files.folder / "circle").symlink_to("circle")
    (files.folder / "link0").write_text("the end")
    for number in range(1, 1200):
        (files.folder / f"link{number}").symlink_to(f"link{number - 1}")
    calls: list[Callable[[], object]] = [
        lambda: files.open(b"circle", READ),
        lambda: files.open(b"circle/more", WRITE),
        lambda: files.open(b"link1199", READ),
    ]
    for call in calls:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    "payload",
    [
        b"gettimeofday,0,0",
        b"open,1/2",
        b"nonsense",
        b"close,1,2,3",
        b"lseek,ff,0,0",
        b"lseek,3,ffffffffffffffff,0",
        b"lseek,3,-1,0",
    ],
)
def test_a_call_that_no_guest_can_make_is_an_error(files: GuestFiles, payload: bytes) -> None:
    class Nothing:
        def read(self, address: int, size: int) -> bytes:
            return bytes(size)

        def write(self, address: int, data: bytes) -> None:
            raise AssertionError

    files.open(b"a.txt", WRITE)
    server = FileServer(files, Nothing(), lambda data: None)
    assert server.serve(FileCall.parse(payload)).startswith(b"F-1,")
