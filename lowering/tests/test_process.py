"""While a model is lowered, output of tools is kept for errors, the collector runs seldom, and torch has one thread."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
from pathlib import Path

import pytest
import torch

from ethos_hil.base.process import SELDOM
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import collecting_seldom, one_torch_thread, quiet
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.tests.conftest import U55


def test_output_of_every_kind_is_collected(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet() as collected:
        sys.stdout.write("python\n")
        sys.stderr.write("errors\n")
        os.write(1, b"native\n")
        assert set(collected(None).split()) == {"python", "errors", "native"}
    sys.stdout.write("after\n")
    assert capfd.readouterr() == ("after\n", "")


def test_an_error_carries_what_was_printed_and_the_terminal_is_restored(capfd: pytest.CaptureFixture[str]) -> None:
    def tool() -> None:
        os.write(1, b"the tool said why\n")
        raise ValueError("no")

    with pytest.raises(ValueError) as caught, quiet():
        tool()
    assert "the tool said why" in caught.value.__notes__[0]
    os.write(1, b"back\n")
    assert capfd.readouterr().out == "back\n"


def test_log_handlers_made_before_are_kept_quiet_too_and_get_their_stream_back() -> None:
    """A handler keeps the stream it was made with, and that need not lead to a descriptor."""
    logger, stream = logging.getLogger("ethos_hil_test"), io.StringIO()
    logger.propagate = False
    before, sys.stderr = sys.stderr, stream
    try:
        early = logging.StreamHandler()
        logger.addHandler(early)
        with quiet() as collected:
            logger.warning("hidden")
            late = logging.StreamHandler()
            logger.addHandler(late)
            logger.warning("hidden twice")
            assert collected(None).split("\n")[:3] == ["hidden", "hidden twice", "hidden twice"]
        assert stream.getvalue() == ""
        logger.warning("shown")
        assert stream.getvalue() == "shown\nshown\n"
    finally:
        sys.stderr = before
        logger.handlers.clear()


# --- While a model is lowered the garbage collector runs seldom and torch has one thread, and as before afterwards.


def test_the_collector_and_the_threads_are_as_before_also_after_an_error() -> None:
    def now() -> tuple[int, ...]:
        return (torch.get_num_threads(), *gc.get_threshold())

    def fails() -> None:
        with collecting_seldom(), one_torch_thread():
            inside.extend(now())
            raise ZeroDivisionError

    inside: list[int] = []
    usual = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own: conftest.py has more
    before = now()
    torch.set_num_threads(before[0] + 1)
    try:
        with pytest.raises(ZeroDivisionError):
            fails()
        assert now() == (before[0] + 1, *before[1:])
    finally:
        torch.set_num_threads(before[0])
        gc.set_threshold(*usual)
    assert inside == [1, *SELDOM]


def test_a_model_is_lowered_in_one_thread(tmp_path: Path) -> None:
    """Else sums differ in the last bit from machine to machine, and programs with them."""
    threads: dict[str, int] = {}
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model = from_module(module_of(lambda x: x * 2), (torch.ones(1, 4),))
        lower(
            model, U55, cache=Cache(tmp_path), progress=lambda stage: threads.update({stage: torch.get_num_threads()})
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads.pop("exporting") == threads.pop("loading ExecuTorch") == 2
    assert "compiling with Vela" in threads
    assert set(threads.values()) == {1}
