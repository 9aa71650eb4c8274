"""Answers the harness, as `labgrid_side.py` starts it; the words are those of `side_process`, in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from ethos_hil.harness.farm.side.borrower import Borrower, borrower_name
from ethos_hil.harness.farm.side.gdb_server_resource import register_gdb_server
from ethos_hil.harness.farm.side.place_board import SideTrouble, labgrid, role_of

_LOOK_SECONDS = 1.0
"""Between two checks whether a user waits for a place that is borrowed and not in use."""
_PARENT_SECONDS = 0.5


async def serve(coordinator: str, parent: int) -> None:
    """Answer the harness until its pipe or its process ends, and give back what is borrowed then."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    helpers = [
        loop.create_task(_listen(lines, ended)),
        loop.create_task(_watch(parent, ended)),
    ]
    host, user = borrower_name(os.getpid())
    os.environ["LG_HOSTNAME"], os.environ["LG_USERNAME"] = host, user  # where labgrid's own code looks
    borrowed = Borrower(coordinator, host, user, lambda text: _say({"note": text}))
    end = loop.create_task(ended.wait())
    line = loop.create_task(lines.get())
    try:
        while not ended.is_set():
            await asyncio.wait({line, end}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                work = loop.create_task(_answer(borrowed, json.loads(line.result())))
                line = loop.create_task(lines.get())
            else:
                work = loop.create_task(_look(borrowed))
            await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # raises what is wrong with this program
            else:
                work.cancel()
                await asyncio.wait({work})
    finally:
        await borrowed.give_back()
        for task in (*helpers, end, line):
            task.cancel()


async def _look(borrowed: Borrower) -> None:
    """Give a place that is not in use to a user who waits."""
    if borrowed.held is not None and not borrowed.in_use:
        await borrowed.idle()


async def _answer(borrowed: Borrower, words: Mapping[str, Any]) -> None:
    """Carry out a command, and answer."""
    answer: dict[str, Any] = {}
    try:
        if words["do"] == "places":
            answer = {"places": await borrowed.places()}
        elif words["do"] == "borrow":
            answer = await borrowed.borrow(words["places"], words["tags"], words["seconds"])
        elif words["do"] == "idle":
            await borrowed.idle()
        else:
            await borrowed.give_back()
    except SideTrouble as trouble:
        answer = trouble.answer
    _say(answer)


async def _listen(lines: asyncio.Queue[bytes], ended: asyncio.Event) -> None:
    """Take the harness's lines; the end of its pipe is the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        lines.put_nowait(line)
    ended.set()


async def _watch(parent: int, ended: asyncio.Event) -> None:
    """Wait for the harness's end: another process may still hold the other end of the pipe."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)
    ended.set()


def _say(answer: Mapping[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the end of standard input says it, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def power(coordinator: str, owner: str, place: str, action: str) -> int:
    """Switch the power of a borrowed place by labgrid's own drivers. Return an exit status."""
    os.environ["LG_HOSTNAME"], _, os.environ["LG_USERNAME"] = owner.partition("/")
    client = labgrid("remote.client")
    role, environment = role_of(place)
    wanted = Namespace(place=place, action=action, delay=None, name=None, state=None, initial_state=None)
    extra = {"args": wanted, "env": environment if role else None, "role": role}
    try:
        client.start_session(coordinator, extra=extra).power()
    except Exception as error:  # of a driver's library, such as one for HTTP
        sys.stderr.write(f"{place}: power {action}: {type(error).__name__}: {error}\n")
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says. Return an exit status."""
    logging.disable()  # what matters is said in an answer
    try:
        register_gdb_server()
    except ImportError as error:
        trouble = SideTrouble("labgrid", f"{sys.executable} has no labgrid: {error}", "docs/farm.md has how to install")
        _say(trouble.answer)
        return 3
    match list(arguments):
        case ["serve", coordinator, parent]:
            asyncio.run(serve(coordinator, int(parent)))
            return 0
        case ["power", coordinator, owner, place, action]:
            return power(coordinator, owner, place, action)
    sys.stderr.write("usage: labgrid_side.py serve HOST:PORT PARENT | power HOST:PORT OWNER PLACE on|off|cycle\n")
    return 2
