"""The garbage collector runs seldom while a model is lowered, and as before afterwards."""

from __future__ import annotations

import gc

import pytest

from ethos_hil.lowering.conditions.process import collecting_seldom


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
