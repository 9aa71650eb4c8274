"""The comparison of a device run with tosa_reference_model and the host's kernels, bit for bit.

Upstream's own comparison does not see everything: its tolerances are those of quantisation (and 0.25 for the networks
of MLPerf Tiny, whose untrained outputs are below 0.1, so that an NPU that only returns zeros passes). This one runs
while the test does, on the very program and inputs, because the TOSA program that a delegate was compiled from is not
in the .pte: it is noted when upstream hands it to Vela.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ethos_hil.base.errors import EthosHilError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.oracle.reference import Reference


class Oracle:
    """Answers programs that are compiled while it watches."""

    def __init__(self) -> None:
        self._tosa: dict[bytes, bytes] = {}  # of each delegate blob that Vela made

    def watching(self, compile_: Callable[..., bytes]) -> Callable[..., bytes]:
        """Wrap ExecuTorch's function that calls Vela, to keep its inputs and results."""

        def watched(tosa: bytes, *args: Any, **kwargs: Any) -> bytes:
            blob = compile_(tosa, *args, **kwargs)
            self._tosa[bytes(blob)] = bytes(tosa)
            return blob

        return watched

    def forget(self) -> None:
        """Forget the programs of the test before."""
        self._tosa.clear()

    def difference(self, folder: Path) -> str:
        """Compare the outputs in a runner's folder: program.pte, i<n>.bin, out-<n>.bin.

        Returns:
            "" if every byte is as expected, else the first output that differs.

        Raises:
            EthosHilError: there is nothing to compare with.
        """
        artifact = Artifact.of_program((folder / "program.pte").read_bytes(), "program.pte")
        delegates = [
            dataclasses.replace(delegate, tosa=self._tosa.get(delegate.vela)) for delegate in artifact.delegates
        ]
        artifact = dataclasses.replace(artifact, delegates=tuple(delegates))
        plan = artifact.plan
        inputs = [
            value.from_bytes((folder / f"i{number}.bin").read_bytes())
            for number, value in enumerate(plan.values[index] for index in plan.inputs)
            if isinstance(value, Tensor)
        ]
        expected = Reference(artifact).run(inputs).outputs
        for number, (tensor, right) in enumerate(zip(plan.output_tensors, expected, strict=True)):
            data = (folder / f"out-{number}.bin").read_bytes()
            if data != tensor.to_bytes(right):
                return f"output {number}: {_describe(tensor, data, right)}"
        return ""


def compare(oracle: Oracle, folder: Path) -> tuple[bool | None, str]:
    """Return whether a device run's outputs are the expected ones, and what differs or is missing.

    The first is None when there is nothing to compare with.
    """
    try:
        difference = oracle.difference(folder)
    except (EthosHilError, OSError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return not difference, difference


def _describe(tensor: Tensor, data: bytes, right: np.ndarray) -> str:
    if len(data) != tensor.nbytes:
        return f"{len(data)} bytes, expected {tensor.nbytes}"
    actual = tensor.from_bytes(data)
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.max(np.abs(actual.astype(np.float64) - right.astype(np.float64)))
    count = np.count_nonzero(actual != right)
    return f"{count} of {right.size} elements of {tensor} differ, by {largest:g} at most"
