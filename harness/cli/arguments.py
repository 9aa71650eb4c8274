"""The arguments of `lower`, as the user gave them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.question import Question


@dataclass(frozen=True)
class LowerArguments:
    """The arguments of `lower`, as the user gave them: what to lower, and what to keep.

    Attributes:
        question: what to lower, and for what.
        given: the fields of it that are on the command line.
        product: "tosa", "vela" or "pte".
        tosa: the TOSA version to lower to; only for TOSA.
        whole: lower whole methods by backend id, instead of the partitioner's choice.
        output: file for the product, or a folder: one that is there, or a name that ends in /. By default the model's
            name in the working directory.
        artefacts: folder for the files to inspect, or None.
    """

    question: Question
    given: frozenset[str]
    product: str
    tosa: str | None
    whole: bool
    output: str | None
    artefacts: Path | None
