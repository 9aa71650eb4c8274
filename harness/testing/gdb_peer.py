"""The other side of GDB's remote protocol, for tests and the laboratory: a server that does as its script says.

`PacketServer` finds packets, acknowledges them, and sends the answers. Its code for packets is its own, so that it does
not share the client's mistakes. `GdbPeer` is one that is as different servers are, honest or not. It has a Cortex-M of
64 KiB that does nothing, and knows at the end what really is in its memory and registers. A script sees each answer
before it is sent, and may change, cut, repeat or delay it, leave it out, or end the connection.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

BASE, SIZE = 0x10000000, 1 << 16
_PPB = range(0xE0000000, 0xE0100000)
_NAMES = (*(f"r{number}" for number in range(13)), "sp", "lr", "pc", "xpsr")
_START, _AGAIN, _INTERRUPT = ord("$"), ord("-"), 0x03
_SEND_TIME = struct.pack("ll", 0, 200_000)
"""Within which a client takes what it is sent: seconds and microseconds."""


class PacketServer:
    """A server with one client at a time."""

    stream: socket.socket | None = None  # the connection with it, which blocks
    acknowledges = True  # both sides acknowledge packets
    refused = 0  # packets with a wrong checksum that came
    _buffer = _last = b""

    def attach(self, stream: socket.socket) -> None:
        """Serve the client at the other end of a stream from now on."""
        self.stream, self.acknowledges, self._buffer, self._last = stream, True, b"", b""

    def detach(self) -> None:
        """Close the connection. What has come and was not looked at yet is forgotten."""
        if self.stream is not None:
            self.stream.close()
            self.stream, self._buffer = None, b""

    def meet(self, byte: int) -> bool:
        """Take note of a byte that comes outside of packets, but for `+` and `-`. Return whether it starts a packet."""
        return byte == _START

    def answers(self, command: bytes) -> list[bytes]:
        """Do what a command says. Return the packets that answer it: none where the answer comes later, or never."""
        raise NotImplementedError

    def script(self, command: bytes, packets: list[bytes]) -> list[bytes] | None:
        """Return the bytes to send in place of the packets that answer a command, or None to close the connection.

        What is asked for again is the answer to the command `-`.
        """
        return packets

    def feed(self, data: bytes) -> None:
        """Answer the packets in what came.

        Raises:
            OSError: the client does not take the answers, or the script ends the connection.
        """
        self._buffer += data
        while self._buffer:
            first = self._buffer[0]
            if first == _AGAIN:
                self._send_as_scripted(b"-", [self._last] if self._last else [])
            if first in b"+-" or not self.meet(first):
                self._buffer = self._buffer[1:]
                continue
            end = self._buffer.find(b"#")
            if end < 0 or len(self._buffer) < end + 3:
                return
            content, checksum = self._buffer[1:end], self._buffer[end + 1 : end + 3]
            self._buffer = self._buffer[end + 3 :]
            sound = checksum.lower() == b"%02x" % (sum(content) % 256)
            self.refused += not sound
            if self.acknowledges:
                self.send(b"+" if sound else b"-")
            if sound:
                answers = self.answers(content)
                self.send_packets(content, answers)
                if content == b"QStartNoAckMode" and answers == [b"OK"]:
                    self.acknowledges = False

    def send_packets(self, command: bytes, contents: list[bytes]) -> None:
        """Send the packets that answer a command; what stopped the processor answers `c` or an interrupt."""
        packets = [packet(content) for content in contents]
        self._last = packets[-1] if packets else b""
        self._send_as_scripted(command, packets)

    def send(self, data: bytes) -> None:
        """Send bytes to the client, if there is one."""
        if self.stream is not None:
            self.stream.sendall(data)

    def _send_as_scripted(self, command: bytes, packets: list[bytes]) -> None:
        pieces = self.script(command, packets)
        if pieces is None:
            raise OSError("the script ends it")
        for piece in pieces:
            self.send(piece)


@dataclass(frozen=True)
class PeerTraits:
    """How the server differs from others."""

    no_ack: bool = True  # it offers to do without acknowledgements
    binary: bool = True  # it knows `X`
    packet_size: int | None = 0x800  # the PacketSize that it states
    files: int = 1  # of which its description consists; 0: it has none
    xpsr: int = 25  # its number of this register
    run_length: bool = False  # it abbreviates repetitions in its answers
    most: int = 1 << 16  # bytes of memory that it sends at most, whatever it is asked for
    greeting: tuple[bytes, ...] = ()  # packets that it sends before it is asked anything


Hook = Callable[["GdbPeer", bytes, list[bytes]], "list[bytes] | None"]
"""The script of a peer (`PacketServer.script`)."""


@dataclass
class PeerState:
    """What really is there."""

    memory: bytearray = field(default_factory=lambda: bytearray(SIZE))  # from BASE on
    words: dict[int, int] = field(default_factory=dict)  # what was written to the processor's own registers
    registers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NAMES, 0))
    running: bool = False  # it was told to go on
    writes: int = 0  # commands that wrote memory


class GdbPeer(PacketServer, threading.Thread):
    """A server at the other end of `client`, until that is closed. `commands` has all that came, in turn."""

    def __init__(self, traits: PeerTraits | None = None, hook: Hook | None = None) -> None:
        super().__init__(daemon=True)
        self.traits = traits or PeerTraits()
        self.state = PeerState()
        self.commands: list[bytes] = []
        self._hook = hook
        self.client, self._end = socket.socketpair()
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIME)
        self.attach(self._end)

    def __enter__(self) -> GdbPeer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._shut_down()
        self.join(10)
        self.detach()

    def run(self) -> None:
        """Answer until the client goes away, or the hook ends it."""
        with contextlib.suppress(OSError):
            for content in self.traits.greeting:
                self.send(packet(content))
            while data := self._end.recv(1 << 16):
                self.feed(data)
        self._shut_down()

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def script(self, command: bytes, packets: list[bytes]) -> list[bytes] | None:
        """Have the hook change what is sent."""
        return packets if self._hook is None else self._hook(self, command, packets)

    def meet(self, byte: int) -> bool:
        """Halt a processor that runs for an interrupt. Return whether a packet starts."""
        if byte == _INTERRUPT and self.state.running:
            self.state.running = False
            self.send_packets(b"\x03", [b"T02thread:1;"])
        return byte == _START

    def answers(self, command: bytes) -> list[bytes]:
        """Return the answers to a command, and do what it says."""
        self.commands.append(command)
        contents = self._contents(command)
        return [_abbreviated(content) for content in contents] if self.traits.run_length else contents

    def _contents(self, command: bytes) -> list[bytes]:
        traits = self.traits
        if command == b"c":
            self.state.running = True
            return []
        if command.startswith(b"qSupported:"):
            features = [b"qXfer:features:read+"] * (traits.files > 0) + [b"QStartNoAckMode+"] * traits.no_ack
            features += [] if traits.packet_size is None else [b"PacketSize=%x" % traits.packet_size]
            return [b";".join(features)]
        if command.startswith(b"qXfer:features:read:"):
            return [self._description(command)]
        if command.startswith(b"qRcmd,"):
            return [b"O" + b"done\n".hex().encode(), b"OK"]
        if command[:1] in (b"m", b"M", b"X"):
            return [self._memory(command)]
        if command[:1] in (b"p", b"P"):
            return [self._registers(command)]
        known = {b"?": b"T05thread:1;", b"D": b"OK", b"QStartNoAckMode": b"OK" if traits.no_ack else b""}
        return [known.get(command, b"")]

    def _description(self, command: bytes) -> bytes:
        match = re.fullmatch(rb"qXfer:features:read:[a-z]*([0-9]*)\.xml:([0-9a-f]+),([0-9a-f]+)", command)
        if match is None or int(b"0" + match[1]) >= self.traits.files:
            return b"E00"
        number, begin, length = int(b"0" + match[1]), int(match[2], 16), int(match[3], 16)
        inner = f'<xi:include href="part{number + 1}.xml"/>'
        if number == self.traits.files - 1:
            extra = {"xpsr": f' regnum="{self.traits.xpsr}"'}
            inner = "".join(f'<reg name="{name}" bitsize="32"{extra.get(name, "")}/>' for name in _NAMES)
        text = '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd">'
        text += f'<feature name="a}}*#$b">{inner}</feature>' if number else f"<target>{inner}</target>"
        part = text.encode()[begin : begin + length]
        return (b"l" if begin + length >= len(text) else b"m") + escaped(part)

    def _memory(self, command: bytes) -> bytes:
        match = re.fullmatch(rb"(.)([0-9a-f]+),([0-9a-f]+)(?::(.*))?", command, re.DOTALL)
        if match is None:
            return b"E16"
        kind, address, length, state = match[1], int(match[2], 16), int(match[3], 16), self.state
        if kind == b"X" and not self.traits.binary:
            return b""
        data = unescaped(match[4] or b"") if kind == b"X" else bytes.fromhex((match[4] or b"").decode())
        if address in _PPB:
            if kind == b"m":
                return state.words.get(address, 0).to_bytes(4, "little")[:length].hex().encode()
            state.words[address] = int.from_bytes(data[:4], "little")
            return b"OK"
        at = address - BASE
        if at < 0 or at + length > SIZE:
            return b"E14"
        if kind == b"m":
            return bytes(state.memory[at : at + min(length, self.traits.most)]).hex().encode()
        if len(data) != length:
            return b"E16"
        state.writes += 1
        state.memory[at : at + length] = data
        return b"OK"

    def _registers(self, command: bytes) -> bytes:
        names = {**dict(enumerate(_NAMES[:-1])), self.traits.xpsr: "xpsr"}
        match = re.fullmatch(rb"[pP]([0-9a-f]+)(?:=([0-9a-f]{8}))?", command)
        if match is None or int(match[1], 16) not in names:
            return b"E01"
        name = names[int(match[1], 16)]
        if match[2] is None:
            return self.state.registers[name].to_bytes(4, "little").hex().encode()
        self.state.registers[name] = int.from_bytes(bytes.fromhex(match[2].decode()), "little")
        return b"OK"


def packet(content: bytes) -> bytes:
    return b"$" + content + b"#%02x" % (sum(content) % 256)


def escaped(data: bytes) -> bytes:
    """Return binary data as a packet has it."""
    return re.sub(rb"[#$}*]", lambda match: b"}" + bytes([match[0][0] ^ 0x20]), data)


def unescaped(data: bytes) -> bytes:
    """Return what binary data in a packet stands for."""
    return re.sub(rb"\}(.)", lambda match: bytes([match[1][0] ^ 0x20]), data, flags=re.DOTALL)


def _abbreviated(content: bytes) -> bytes:
    """Return content with repetitions abbreviated: `*!` stands for four more, `*~` for 97 (the character less 29).

    The number must not look like `#`, `$`, `+` or `-`.
    """
    if b"}" in content or b"*" in content:
        return content
    content = re.sub(rb"(.)\1{97}", rb"\1*~", content, flags=re.DOTALL)
    return re.sub(rb"([^*~])\1{4}", rb"\1*!", content, flags=re.DOTALL)
