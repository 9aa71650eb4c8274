"""The first questions to a GDB server: what it can do, and which registers there are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards.rsp_exchange import RspExchange, shown, text_of
from ethos_hil.harness.boards.rsp_packets import escaped_binary
from ethos_hil.harness.boards.rsp_registers import UNDESCRIBED, DescriptionError, RegisterTable, described_registers

_QUESTION = b"qSupported:multiprocess-;xmlRegisters=arm"
_DEFAULT_PACKET = 400
"""PacketSize of a server that states none: what GDB begins with."""
_FEWEST_PACKET, _MOST_PACKET = 64, 1 << 15
_FRAME = 4
"""`$`, `#` and the checksum count in PacketSize."""
_LONGEST_QUESTION = len(b"qXfer:features:read::ffffffff,ffffffff")
_MOST_TEXT = 1 << 18


@dataclass(frozen=True)
class ServerAbilities:
    """What a GDB server can do.

    Attributes:
        features: it, as the server says it.
        packet_size: bytes of the largest packet that it takes.
        registers: the processor's registers.
    """

    features: frozenset[str]
    packet_size: int
    registers: RegisterTable

    @property
    def room(self) -> int:
        """How many bytes fit into a packet."""
        return self.packet_size - _FRAME


def greet(exchange: RspExchange, deadline: Deadline) -> ServerAbilities:
    """Ask a server what it can do. From then on both acknowledge no packets, if it can do without.

    Raises:
        TargetError: it does not say so, or what cannot be used (RspExchange).
    """
    answer = exchange.ask(_QUESTION, deadline, "the question what it can do")
    features = frozenset(text_of(answer).split(";"))
    size = _DEFAULT_PACKET
    for feature in features:
        name, _, value = feature.partition("=")
        if name == "PacketSize" and re.fullmatch("[0-9a-fA-F]{1,8}", value):
            size = min(int(value, 16), _MOST_PACKET)
    if size < _FEWEST_PACKET:
        exchange.stream.fail(f"it takes packets of {size} bytes only")
    if "QStartNoAckMode+" in features:
        agreed = exchange.ask(b"QStartNoAckMode", deadline, "the offer not to acknowledge") == b"OK"
        exchange.stream.acknowledges = not agreed
    registers = UNDESCRIBED
    if "qXfer:features:read+" in features:
        try:
            registers = described_registers(lambda name: _description(exchange, name, size - _FRAME, deadline))
        except DescriptionError as error:
            exchange.stream.fail(f"its description of the processor cannot be used: {error}")
    return ServerAbilities(features, size, registers)


def _description(exchange: RspExchange, name: str, room: int, deadline: Deadline) -> bytes:
    """Return a file of the description of the processor."""
    annex = escaped_binary(name.encode("utf-8", "replace"))
    if len(annex) > room - _LONGEST_QUESTION:
        raise DescriptionError(f"it has a file with a name of {len(name)} characters, {name[:_FEWEST_PACKET]!r} ...")
    text = b""
    while True:
        command = b"qXfer:features:read:%b:%x,%x" % (annex, len(text), room - 1)
        answer = exchange.ask(command, deadline, f"the question for {name!r}")
        if answer[:1] not in (b"l", b"m"):
            raise DescriptionError(f"the server has no {name!r}: it answered {shown(answer)}")
        text += answer[1:]
        if answer[:1] == b"l":
            return text
        if len(answer) == 1 or len(text) > _MOST_TEXT:
            raise DescriptionError(f"{name!r} does not end")
