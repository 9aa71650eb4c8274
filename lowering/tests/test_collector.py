"""The garbage collector: seldom while a model is lowered, and as before afterwards; imported objects are left alone."""

from __future__ import annotations

import gc
import weakref

import pytest

from ethos_hil.lowering.conditions.process import collecting_seldom
from ethos_hil.lowering.upstream import process
from ethos_hil.lowering.upstream.process import collecting_seldom, import_executorch


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


# --- Imported objects are frozen for the garbage collector, which still collects later ones.


def test_what_was_imported_is_not_gone_through_again_and_later_cycles_are_collected() -> None:
    import_executorch()
    assert gc.get_freeze_count() > 300_000

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    later = weakref.ref(Cycle())
    assert gc.isenabled()
    gc.collect()
    assert later() is None


def test_an_import_that_fails_leaves_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_MODULES", ("executorch.absent",))
    with pytest.raises(ModuleNotFoundError):
        import_executorch.__wrapped__()
    assert gc.isenabled()
