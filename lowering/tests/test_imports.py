"""Imported objects are frozen for the garbage collector, which still collects later ones."""

from __future__ import annotations

import gc
import weakref

import pytest

from ethos_hil.lowering.upstream import toolchain
from ethos_hil.lowering.upstream.toolchain import import_executorch


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
    monkeypatch.setattr(toolchain, "_MODULES", ("executorch.absent",))
    with pytest.raises(ModuleNotFoundError):
        import_executorch.__wrapped__()
    assert gc.isenabled()
