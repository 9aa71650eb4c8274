"""A packed image on a board, with the link that its line carries: binary, and as text where binary is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ethos_hil.base.errors import BinaryRefused, TargetError, TargetNotAvailable
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Target

_refused: dict[str, str] = {}
"""Why the binary link was refused, by the identity of the targets that a printable one works on."""


def run_image(
    board: Target,
    image: Image,
    in_text: Callable[[], Image],
    *,
    timeout: float,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run an image, and run it again with a printable link where the binary one is refused.

    Args:
        board: the target, in the idle state; it is idle again afterwards.
        image: the image, with the binary link.
        in_text: makes the same with a printable link.
        timeout: wall seconds of each run.
        progress: called after every finished execution.
        tell: gets a word when it runs again.

    Returns:
        The outcome. One of its notes says why its link is printable, if it is.

    Raises:
        What `Target.load` and `Target.run` raise. An error on the second link quotes that on the first.
    """
    why = _refused.get(board.identity)
    if why is None:
        try:
            board.load(image)
            return board.run(timeout=timeout, progress=progress)
        except BinaryRefused as error:
            why = error.message
            tell("again, with a printable link")
    try:
        board.load(in_text())
        outcome = board.run(timeout=timeout, progress=progress)
    except (TargetError, TargetNotAvailable) as error:
        raise error.replace(message=f"{error.message} (on a printable link; on a binary one: {why})") from error
    _refused[board.identity] = why
    note = f"the link is printable, and slower by a third: {why}"
    return dataclasses.replace(outcome, notes=(*outcome.notes, note))
