"""Output of tools stays off the terminal, is kept in errors, and the terminal is always restored."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys

import pytest

from ethos_hil.lowering.conditions.process import collecting_seldom, quiet


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


# --- The garbage collector runs seldom while a model is lowered, and as before afterwards.


def _fails_inside() -> None:
    before = gc.get_threshold()
    with collecting_seldom():
        assert gc.get_threshold()[0] > 10 * before[0]
        assert gc.get_threshold()[1:] == before[1:]
        raise ValueError("inside")


def test_the_collector_is_as_before_also_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"):
        _fails_inside()
    assert gc.get_threshold() == before
