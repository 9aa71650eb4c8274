"""The loader with QEMU and the built firmware, and with memories and boards that do what they should not."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards import loader
from ethos_hil.harness.boards.board import ResetWords, WordWrite
from ethos_hil.harness.boards.gdb_server import StartedServer, board_remote
from ethos_hil.harness.boards.loadable import LoadableImage
from ethos_hil.harness.boards.loader import ICIALLU, THUMB, VTOR, load, make_sure_parked, park, reset, start, store
from ethos_hil.harness.boards.tests.qemu_servers import RESET, VECTORS, frames, qemu_loading, qmp
from ethos_hil.harness.gdb.remote import GdbRemote, connect
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.formats import FrameType
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.socs.corstone_300 import SOC as CORSTONE_300
from ethos_hil.harness.testing.gdb_peer import BASE, SIZE, GdbPeer
from ethos_hil.harness.testing.tiny_elf import tiny_elf
from ethos_hil.harness.virtual.tests import programs

CODE = bytes(range(256)) * 20


def image(
    parts: dict[int, bytes] | None = None, stack: int = BASE + SIZE - 64, entry: int = BASE + 0x41, more: int = 64
) -> bytes:
    """Return an ELF with a vector table and CODE at BASE, `more` bytes without content behind it, and `parts`."""
    return tiny_elf(BASE, CODE, stack=stack, entry=entry, empty=(BASE + 0x8000, more), parts=parts)


def peer_remote(peer: GdbPeer) -> GdbRemote:
    return GdbRemote(peer.client, server="the server", seconds=5)


# --- the real one


@pytest.fixture(scope="module")
def firmware() -> bytes:
    return find_firmware("corstone-300")


def test_the_firmware_is_loaded_and_runs(tmp_path: Path, firmware: bytes) -> None:
    progress: list[tuple[int, int]] = []
    with board_remote(qemu_loading(tmp_path)) as remote:
        loaded = load(
            remote, firmware, words=RESET, vector_table=VECTORS, progress=lambda done, of: progress.append((done, of))
        )
        assert remote.read_register("pc") == loaded.parked
        start(remote, loaded)
        types = [frame.type for frame in frames(tmp_path)]
    assert types == [FrameType.HELLO, FrameType.ERROR, FrameType.END]  # there is no package
    assert progress[-1] == (2 * loaded.bytes, 2 * loaded.bytes)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_a_package_in_other_memories_is_loaded_too(tmp_path: Path, firmware: bytes) -> None:
    recorded = programs.load("convolutions")
    packed = pack(firmware, recorded.pte, [recorded.inputs], RunPlan(1, 1))
    with board_remote(qemu_loading(tmp_path)) as remote:
        loaded = load(remote, packed.elf, words=RESET, vector_table=VECTORS, soc=CORSTONE_300)
        start(remote, loaded)
        types = [frame.type for frame in frames(tmp_path)]
    assert loaded.bytes > len(recorded.pte)
    assert FrameType.ERROR in types  # QEMU has no NPU; the package was found
    assert b"no package" not in (tmp_path / "uart").read_bytes()


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="needs gdb-multiarch, as an oracle")
def test_gdb_sees_what_was_loaded(tmp_path: Path, firmware: bytes) -> None:
    with StartedServer(qemu_loading(tmp_path)) as server:
        remote = connect(server.address, server="QEMU")
        loaded = load(remote, firmware, words=RESET, vector_table=VECTORS)
        for register in range(13):
            remote.write_register(f"r{register}", 0x11111111 * register)
        remote.close()
        elf = tmp_path / "firmware.elf"
        elf.write_bytes(firmware)
        orders = (
            f"target remote {server.address[0]}:{server.address[1]}",
            "compare-sections",
            "info registers r5 sp pc xpsr",
        )
        command = ["gdb-multiarch", "-nx", "-batch", *(word for order in orders for word in ("-ex", order)), str(elf)]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    assert ".text, range" in output
    assert "MIS-MATCHED" not in output.replace(".data", "")  # GDB reads .data where it runs, not where it is loaded
    values = {
        words[0]: int(words[1], 0)
        for line in output.splitlines()
        if len(words := line.split()) > 2 and words[1][:2] == "0x"
    }
    assert values["r5"] == 0x55555555
    assert values["sp"] == loaded.start.stack
    assert values["pc"] == loaded.parked
    assert values["xpsr"] & THUMB


def test_a_client_that_goes_away_in_the_middle_leaves_a_board_for_the_next(tmp_path: Path, firmware: bytes) -> None:
    """QEMU lets an empty processor go then, and ends in a lockup unless it is parked."""

    class EnoughSeen(Exception):
        pass

    def leave(done: int, of: int) -> None:
        if done > of // 4:
            raise EnoughSeen

    with StartedServer(qemu_loading(tmp_path)) as server:
        for _ in range(3):
            remote = connect(server.address, server="QEMU")
            with pytest.raises(EnoughSeen):
                load(remote, firmware, words=RESET, vector_table=VECTORS, progress=leave)
            remote.detach()
        remote = connect(server.address, server="QEMU")
        start(remote, load(remote, firmware, words=RESET, vector_table=VECTORS))
        assert frames(tmp_path)[-1].type is FrameType.END


def test_a_board_that_starts_again_during_the_load_is_lost(tmp_path: Path, firmware: bytes) -> None:
    done_once: list[int] = []

    def press_reset(done: int, of: int) -> None:
        if done > of // 3 and not done_once:
            done_once.append(done)
            qmp(tmp_path, "system_reset")

    with pytest.raises(TargetError, match="started again") as caught, board_remote(qemu_loading(tmp_path)) as remote:
        load(remote, firmware, words=RESET, vector_table=VECTORS, progress=press_reset)
    assert caught.value.kind is FailureKind.LOST_BOARD


def test_a_board_that_starts_again_after_the_load_is_not_started(tmp_path: Path, firmware: bytes) -> None:
    with board_remote(qemu_loading(tmp_path)) as remote:
        loaded = load(remote, firmware, words=RESET, vector_table=VECTORS)
        qmp(tmp_path, "system_reset")
        with pytest.raises(TargetError, match="started again"):
            start(remote, loaded)
    assert (tmp_path / "uart").read_bytes() == b""


@pytest.mark.parametrize(
    "data", [bytes(range(1, 9)), *(bytes(size) for size in (1, 3, 4, 100))], ids=lambda data: f"{len(data)} bytes"
)
def test_memory_that_is_none_is_found(recorded: Recorded, tmp_path: Path, data: bytes) -> None:
    """QEMU says OK to a write where its board has nothing that can be written; zeros are not taken for memory."""
    with pytest.raises(TargetError) as caught, board_remote(qemu_loading(tmp_path)) as remote:
        store(remote, [(0x31000000, bytes(range(100))), (0x58102000, data)], soc=CORSTONE_300)
    recorded.check(caught.value.failure)


def test_zeros_are_stored() -> None:
    with GdbPeer() as peer:
        peer.state.memory[:] = b"x" * SIZE
        store(peer_remote(peer), [(BASE + 16, bytes(101)), (BASE + 200, bytes(2))])
        assert peer.state.memory[15:118] == b"x" + bytes(101) + b"x"
        assert peer.state.memory[199:203] == b"x\0\0x"


# --- what servers and boards do wrong


def test_the_order_is_kept() -> None:
    """Nothing resets after the first write; the registers come last, and then the processor goes."""
    words = ResetWords(("reset halt",), (WordWrite(BASE + 0xF000, 7),), (WordWrite(BASE + 0xF004, 8),))
    with GdbPeer() as peer:
        remote = peer_remote(peer)
        loaded = load(remote, image(), words=words, vector_table=BASE)
        start(remote, loaded)
        peer.join(5)
    state = peer.state
    assert state.running
    assert state.registers == {**state.registers, "sp": BASE + SIZE - 64, "pc": BASE + 0x40, "xpsr": THUMB}
    assert state.words[VTOR] == BASE
    assert ICIALLU in state.words
    assert state.memory[8 : 8 + len(CODE)] == CODE
    assert state.memory[0xF000:0xF008] == struct.pack("<II", 7, 8)
    kinds = [command[:5] for command in peer.commands]
    reset_at = kinds.index(b"qRcmd")
    assert kinds.count(b"qRcmd") == 1
    assert next(i for i, command in enumerate(peer.commands) if command.startswith(b"M1000f000")) < reset_at
    assert next(i for i, command in enumerate(peer.commands) if command.startswith(b"M1000f004")) > reset_at
    assert peer.commands[-1] == b"c"
    last_write = max(i for i, command in enumerate(peer.commands) if command[:1] in b"MX")
    assert last_write < max(i for i, command in enumerate(peer.commands) if command[:2] == b"Pf")


def test_without_a_reset_what_may_interrupt_is_switched_off() -> None:
    with GdbPeer() as peer:
        peer.state.words[loader.SYST_CSR] = 7
        load(peer_remote(peer), image(), words=ResetWords(), vector_table=BASE)
    assert peer.state.words[loader.SYST_CSR] == 0
    assert peer.state.words[loader.MPU_CTRL] == 0
    assert peer.state.words[loader.NVIC_ICER] == 0xFFFFFFFF
    assert not any(command.startswith(b"qRcmd") for command in peer.commands)


@pytest.mark.parametrize("where", [0, 8, 2000, len(CODE) + 7])
def test_one_bit_that_memory_does_not_keep_is_found(recorded: Recorded, where: int) -> None:
    wanted = (struct.pack("<II", BASE + SIZE - 64, BASE + 0x41) + CODE)[where]

    def flip(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        peer.state.memory[where] = wanted ^ 0x80
        return packets

    with GdbPeer(hook=flip) as peer, pytest.raises(TargetError) as caught:
        load(peer_remote(peer), image(), words=RESET, vector_table=BASE, soc=CORSTONE_300)
    recorded.check(caught.value.failure)


def test_a_register_that_is_not_kept_is_found() -> None:
    def stuck(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        peer.state.registers["xpsr"] = 0
        return packets

    with GdbPeer(hook=stuck) as peer, pytest.raises(TargetError, match="xpsr is 0x00000000; 0x01000000 was written"):
        load(peer_remote(peer), image(), words=RESET, vector_table=BASE)


def test_bit_0_of_pc_may_be_shown_as_it_was_written() -> None:
    """OpenOCD does."""
    with GdbPeer() as peer:
        remote = peer_remote(peer)
        parked = park(remote, BASE + 0x100, BASE + 0x1000)
        peer.state.registers["pc"] |= 1
        make_sure_parked(remote, parked)


def test_a_board_whose_code_memory_is_read_only_is_not_parked() -> None:
    with GdbPeer() as peer:
        remote = peer_remote(peer)
        assert park(remote, BASE + 2 * SIZE, BASE + 0x1000) is None
        assert remote.usable
        assert peer.state.registers["pc"] == 0


def test_a_processor_that_runs_though_it_was_reset_is_refused() -> None:
    def running(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        peer.state.words[0xE000EDF0] = 1
        return packets

    with GdbPeer(hook=running) as peer:
        with pytest.raises(TargetError, match="still runs"):
            reset(peer_remote(peer), RESET)
        assert peer.state.writes == 0


IMAGES = {
    "no ELF": (b"no ELF", BASE),
    "a table at an odd place": (image(), BASE + 4),
    "a table behind the code": (image(), BASE + 0x10000),
    "a table where nothing is loaded": (image(), BASE + 0x8000),
    "no stack": (image(stack=0), BASE),
    "a stack in the table": (image(stack=BASE + 4), BASE),
    "an entry that is not Thumb": (image(entry=BASE + 0x40), BASE),
    "an entry where nothing is loaded": (image(entry=BASE + 0x8001), BASE),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_cannot_start_is_refused_before_anything_is_written(recorded: Recorded, name: str) -> None:
    elf, table = IMAGES[name]
    with GdbPeer() as peer:
        with pytest.raises(UsageError) as caught:
            load(peer_remote(peer), elf, words=RESET, vector_table=table)
        assert peer.state.writes == 0
    recorded.check(caught.value.failure)


def test_room_behind_code_is_nobodys() -> None:
    behind = BASE + 8 + len(CODE)
    result = LoadableImage.parse(image({behind: bytes(100), behind + 104: bytes(8)}), BASE)
    assert result.room_behind_code(4) == behind + 112
    assert LoadableImage.parse(image(), BASE).room_behind_code(4) == (behind + 7) // 8 * 8
