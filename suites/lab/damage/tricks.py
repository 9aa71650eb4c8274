"""What a hostile server does. Each trick gets an answer before it is sent, and returns what is sent in its place."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

from ethos_hil.harness.testing.gdb_peer import BASE, SIZE, GdbPeer, packet

_MOST = 300_000
_DROP_SECONDS = 0.02
_DROPS = 40
_DHCSR = 0xE000EDF0
_CHECKSUM = 3

Trick = Callable[[random.Random, GdbPeer, bytes, list[bytes]], "list[bytes] | None"]


def content_of(answer: bytes) -> bytes:
    """Return the content of a packet of ours."""
    return answer[1:-_CHECKSUM]


def is_sound(answer: bytes) -> bool:
    """Return whether the checksum of a packet is right."""
    return answer == packet(content_of(answer))


def _flipped(rng: random.Random, content: bytes) -> bytes:
    """Return content with another byte in it, which does not end the packet or start one."""
    if not content:
        return b"x"
    at = rng.randrange(len(content))
    byte = rng.choice([code for code in range(256) if code not in (content[at], *b"#$}*")])
    return content[:at] + bytes([byte]) + content[at + 1 :]


def noise(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Damage the last packet of an answer on the way: its checksum is not its content's."""
    if not packets:
        return packets
    wrong = b"$" + _flipped(rng, content_of(packets[-1])) + packets[-1][-_CHECKSUM:]
    return [*packets[:-1], wrong]


def lie(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Change an answer, checksum and all."""
    return [packet(_flipped(rng, content_of(data))) for data in packets]


def cut(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send the start of an answer."""
    return [data[: rng.randrange(len(data))] for data in packets]


def silence(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send nothing."""
    return []


def twice(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send an answer again."""
    return packets + packets


def between(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send what is not a packet before an answer."""
    return [rng.randbytes(rng.choice((1, 10, 1000))).replace(b"$", b"").replace(b"-", b""), *packets]


def other(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send another answer."""
    answers = (b"OK", b"", b"E01", b"E.no", b"T05", b"S00", b"W00", b"l", b"m", b"OFF", b"F1,2", b"0" * 8, b"vCont")
    return [packet(rng.choice((*answers, rng.randbytes(8).hex().encode())))]


def endless(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send a packet without an end, or one that stands for megabytes."""
    return [rng.choice((b"$" + b"0" * _MOST, packet(b"0" + b"*~" * 50_000)))]


def flood(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send no end of what is not an answer, and then it."""
    drop = rng.choice((b"+", b"-", b"?", b"%Stop:T05#xx", packet(b"O41"), packet(b"T05"), packet(b"O" + b"41" * 500)))
    return [drop * rng.choice((10, 1000, _MOST // len(drop))), *packets]


def slow(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send an answer byte by byte."""
    for answer in packets:
        for at in range(min(_DROPS, len(answer))):
            peer.send(answer[at : at + 1])
            time.sleep(_DROP_SECONDS)
        peer.send(answer[_DROPS:])
    return []


def close(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> None:
    """Close the connection."""
    return


def refuse(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Ask for the command again."""
    return [b"-"]


def sizes(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """State a strange size of packets."""
    if not command.startswith(b"qSupported"):
        return packets
    size = rng.choice((b"0", b"1", b"3f", b"40", b"fffffffff", b"-1", b"", b"zz", b"7fffffff", b"PacketSize=9"))
    return [packet(b"PacketSize=" + size + b";QStartNoAckMode+;qXfer:features:read+")]


def description(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Send a strange description."""
    if not command.startswith(b"qXfer"):
        return packets
    texts = (
        b"l<target/>",
        b"l<target><xi:include href='target.xml'/></target>",
        b"l<target><include href='%d#$}.xml'/></target>" % rng.randrange(10**9),
        b"l" + b"<a>" * 5000,
        b"l<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        b"l<target><reg name='pc' regnum='99999999999'/></target>",
        b"l<target>" + b"<reg/>" * 6000 + b"</target>",
        b"m" + b"<" * 500,
        b"m",
        b"l",
        b"l\xff\xfe<\0a\0/\0>\0",
    )
    text = rng.choice(texts)
    return [packet(re.sub(rb"[#$}*]", lambda match: b"}" + bytes([match[0][0] ^ 0x20]), text))]


def forget(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Keep a bit that was written to memory otherwise."""
    if (place := _written(command)) is not None:
        peer.state.memory[rng.choice(place)] ^= 1 << rng.randrange(8)
    return packets


def wrong_register(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Have something else in a register."""
    if command[:1] in (b"P", b"G"):
        peer.state.registers[rng.choice(("sp", "pc", "xpsr"))] = rng.getrandbits(32)
    return packets


def start_again(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Reset the processor, and perhaps lose what is in memory."""
    if (place := _written(command)) is not None and len(place) > 4:
        peer.state.registers.update(pc=0x100, sp=0, xpsr=0)
        if rng.random() < 0.5:
            peer.state.memory[:] = bytes(SIZE)
    return packets


def run_on(rng: random.Random, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes]:
    """Let the processor run, though it was told to halt."""
    peer.state.words[_DHCSR] = 1
    return packets


def _written(command: bytes) -> range | None:
    """Return the places in memory that a command writes, or None."""
    match = re.match(rb"[MX]([0-9a-f]+),([0-9a-f]+):", command)
    begin, size = (int(match[1], 16) - BASE, int(match[2], 16)) if match else (-1, 0)
    return range(begin, begin + size) if begin >= 0 and size and begin + size <= SIZE else None


TRICKS: dict[str, Trick] = {
    function.__name__: function
    for function in (
        *(noise, lie, cut, silence, twice, between, other, endless, flood, slow, close, refuse, sizes),
        *(description, forget, wrong_register, start_again, run_on),
    )
}
