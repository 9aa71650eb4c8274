"""An order of the Arm passes in which look-ups become TABLEs before average pools are rewritten.

In upstream's order the two collide. An average pool, or a mean that becomes one, is fed by sigmoid, tanh, exp or the
like. These promote integers to float until they are TABLEs, so the pool finds a float input, and lowering fails with
"Unsupported input dtype torch.float32" (executorch 1.4.1).
"""

from __future__ import annotations

from typing import Any


def tables_first(registered: dict[type, Any], program: Any) -> dict[type, Any]:
    """Upstream's dictionary of inserted passes, copied, with one more insertion.

    Args:
        registered: the insertions that the Arm pass manager knows of, by the class of the pass they go with.
        program: the partition's ExportedProgram that is to be compiled in this order.
    """
    from executorch.backends.arm._passes import DecomposeAvgPool2dPass, InsertTableOpsPass
    from executorch.backends.arm._passes.arm_pass_manager import PassInsertions

    copied = {
        each: PassInsertions([*insertions.before_passes], [*insertions.after_passes])
        for each, insertions in registered.items()
    }
    copied.setdefault(DecomposeAvgPool2dPass, PassInsertions()).before_passes.append(InsertTableOpsPass(program))
    return copied
