"""The arguments of `lower`, as the user gave them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LowerArguments:
    """What to lower and what of it to keep: the arguments of `lower`, as the user gave them.

    Attributes:
        model: MODEL.
        product: "tosa", "vela" or "pte".
        npu, memory_mode: what for; for blobs and programs.
        tosa: the TOSA to lower to; for TOSA.
        whole: lower whole methods by backend id, instead of what a partitioner picks.
        output: file or folder for the product; by default it is called after the model, in the working directory.
        artefacts: folder for what there is to look into besides.
    """

    model: str
    product: str
    npu: str | None
    memory_mode: str | None
    tosa: str | None
    whole: bool
    output: Path | None
    artefacts: Path | None
