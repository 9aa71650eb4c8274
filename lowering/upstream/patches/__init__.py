"""What torch and torchao do many times in a lowering, and need not do.

Each module takes away one detour; each changes how long a lowering takes, and none what comes of it, which tests
compare byte for byte. All of them replace a function of theirs for a while (`replaced`).

Measured as CPU seconds, median of five lowerings for an Ethos-U55-128 that alternate in one process, with all of them,
without one, and with none:

    addition     0.42 all   0.76 collected_once   0.60 generated_on_demand   0.71 remembered_overrides   1.20 none
    convolution  0.52       0.90                  0.97                       1.16                        1.66
    softmax      0.95       1.73                  1.46                       1.71                        2.61

shared_history counts in long graphs: 12 for MobileNetV1 0.25 with it, 17 without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ethos_hil.lowering.upstream.patches.composites import collected_once
from ethos_hil.lowering.upstream.patches.generation import generated_on_demand
from ethos_hil.lowering.upstream.patches.history import shared_history
from ethos_hil.lowering.upstream.patches.overrides import remembered_overrides


@contextmanager
def shortcuts() -> Iterator[None]:
    """While inside, torch takes no detours. Imports torch; torchao's is left out where something is quantised."""
    with ExitStack() as stack:
        for each in (collected_once, generated_on_demand, remembered_overrides, shared_history):
            stack.enter_context(each())
        yield
