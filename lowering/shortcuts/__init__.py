"""What torch and torchao do many times in a lowering, and need not do.

Each module takes away one detour; each changes how long a lowering takes, and none what comes of it, which tests
compare byte for byte. All of them replace a function of theirs for a while (`lowering.replaced`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lowering.shortcuts.composites import collected_once
from lowering.shortcuts.generation import generated_on_demand
from lowering.shortcuts.overrides import remembered_overrides


@contextmanager
def shortcuts() -> Iterator[None]:
    """While inside, torch takes none of the detours of these modules. Imports torch."""
    with ExitStack() as stack:
        for each in (collected_once, generated_on_demand, remembered_overrides):
            stack.enter_context(each())
        yield
