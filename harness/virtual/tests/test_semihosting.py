"""The calls that the host answers, and with what; without the answer, a C library's start-up fails."""

from __future__ import annotations

import dataclasses
import errno
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.fvp_stand_in.tests.conftest import build
from ethos_hil.harness.image.segments import Segment, segments
from ethos_hil.harness.virtual import guest_files
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.guest_files import FileCall, FileServer, GuestFiles, OpenFlag, Refused, Semihosting
from ethos_hil.harness.virtual.machine import Exit, Machine
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300

CALL = b"\xab\xbe"
MOVS_HEAPINFO, MOVW_HEAPINFO, MOVS_WRITE = b"\x16\x20", b"\x4f\xf0\x16\x00", b"\x05\x20"
NOP = b"\x00\xbf"
SEMIHOSTING = Semihosting("guest heap", Path())


def calls(*code: bytes, address: int = 0x10000000, executable: bool = True) -> list[int]:
    """Byte offsets of the calls found in `code`."""
    data = b"".join(code)
    segment = Segment(0, address, address, len(data), len(data), executable)
    return sorted(at - address for at in SEMIHOSTING.find_calls(io.BytesIO(data), [segment]).heapinfo)


def test_calls_are_recognised_by_their_number_or_all_are_taken() -> None:
    assert calls(MOVS_WRITE, CALL, MOVS_HEAPINFO, NOP, CALL) == [8]
    assert calls(MOVW_HEAPINFO, NOP * 6, CALL, MOVS_WRITE, NOP * 8, CALL) == [16]
    assert calls(CALL, MOVS_WRITE, CALL) == [0, 4], "none can be recognised"
    assert calls(b"\x00" + CALL + b"\x00", CALL) == [4], "bytes that are not an instruction"
    assert calls(CALL, executable=False) == []


def test_a_comma_in_the_command_line_is_escaped_for_qemu() -> None:
    assert Semihosting("a,b", Path()).arguments()[1].endswith(",arg=a,,b")


@pytest.mark.parametrize("answered", [True, False])
def test_start_up_needs_the_answer(tmp_path: Path, answered: bool) -> None:
    """QEMU's own answer puts the stack below its limit, which faults."""
    path = build("corstone-300", tmp_path / "guest.elf")
    with path.open("rb") as file:
        calls = SEMIHOSTING.find_calls(file, segments(file))
    if not answered:
        calls = dataclasses.replace(calls, heapinfo=frozenset())
    board = QemuBoard(CORSTONE_300, Qemu(path, semihosting=SEMIHOSTING))
    deadline = Deadline(20 if answered else 1)
    console = b""
    with Machine(board, EthosU.parse("ethos-u55-128"), deadline, answered=calls) as machine:
        try:
            while not isinstance(event := machine.wait(), Exit):
                console += event.console
        except TimeoutError:
            assert not answered
            assert "unexpected" in (machine.where() or "")
            return
    assert answered
    assert console.startswith(b"heap 0x3")
    assert event == Exit(0)


# --- The bounds of what a guest opens, makes and writes, and the fence around its folder while somebody moves it. ---


READ = OpenFlag.READ_ONLY
WRITE = OpenFlag.WRITE_ONLY | OpenFlag.CREATE | OpenFlag.TRUNCATE
APPEND = OpenFlag.WRITE_ONLY | OpenFlag.CREATE | OpenFlag.APPEND


@pytest.fixture
def files(tmp_path: Path) -> Iterator[GuestFiles]:
    guest = GuestFiles(tmp_path)
    yield guest
    guest.stop()


def test_what_is_appended_is_at_the_end(files: GuestFiles) -> None:
    for text in (b"one", b" two"):
        number = files.open(b"a", APPEND)
        files.seek(number, 0, 0)
        assert files.write(number, text) == len(text)
    assert (files.folder / "a").read_text() == "one two"


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
            files.open(b"../\x1b[2J\xff%d" % number, READ)
    assert files.refusals[0].startswith(r"the program may not open '../\x1b[2J\udcff0'")
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
