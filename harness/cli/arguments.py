"""The arguments of `lower`, as the user gave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ethos_hil.harness.ask.quantisation_options import QuantisationOptions
from ethos_hil.lowering.vela.options import VelaOptions


@dataclass(frozen=True)
class LowerArguments:
    """The arguments of `lower`, as the user gave them: what to lower, and what to keep.

    Attributes:
        model: MODEL.
        product: "tosa", "vela" or "pte".
        npu, memory_mode, vela: what to compile for, and what Vela is asked; only for products of Vela.
        tosa: the TOSA version to lower to; only for TOSA.
        whole: lower whole methods by backend id, instead of the partitioner's choice.
        output: file for the product, or a folder: one that is there, or a name that ends in /. By default the model's
            name in the working directory.
        artefacts: folder for the files to inspect, or None.
        trust_model: load a .pt2 with more than data in it.
        as_upstream: repair none of Vela's known defects.
        leave: operators, lines or modules that are left to the CPU.
        scheme: bits of activations and weights.
        quantisation: what else the user says about the quantisation.
    """

    model: str
    product: str
    npu: str | None
    memory_mode: str | None
    vela: VelaOptions
    tosa: str | None
    whole: bool
    output: str | None
    artefacts: Path | None
    trust_model: bool = False
    as_upstream: bool = False
    leave: tuple[str, ...] = ()
    scheme: str = "a8w8"
    quantisation: QuantisationOptions = field(default_factory=QuantisationOptions)
