"""TensorFlow Lite Micro in an environment of its own, which `make build/tflite-micro/.installed` sets up."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.testing.tflite_graph import Array

ROOT = Path(__file__).resolve().parents[4]
PYTHON = ROOT / "build" / "tflite-micro" / "bin" / "python"
_SCRIPT = Path(__file__).with_name("tflm.py")
_LAST = 200  # characters of an error
Sets = Sequence[Sequence[Array]]


@dataclass(frozen=True)
class TflmAnswer:
    """What TensorFlow Lite Micro says of a network.

    Attributes:
        outputs: of each inference; none where it cannot run the network.
        problem: why it cannot, or "".
    """

    outputs: tuple[tuple[Array, ...], ...] = ()
    problem: str = ""


def available() -> bool:
    """Return whether the environment is set up."""
    return (PYTHON.parents[1] / ".installed").exists()


def answers(networks: Mapping[str, tuple[bytes, Sets]]) -> dict[str, TflmAnswer]:
    """Run networks.

    Args:
        networks: by name: the flatbuffer, and the inputs of each inference, in order. States go from one to the next.

    Raises:
        ToolError: the environment is missing or broken.
    """
    if not available():
        raise ToolError("TensorFlow Lite Micro is not installed", hint="run: make build/tflite-micro/.installed")
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        folder = Path(name)
        for number, (tflite, sets) in enumerate(networks.values()):
            (folder / f"{number}.tflite").write_bytes(tflite)
            arrays = {f"{i}_{j}": value for i, inputs in enumerate(sets) for j, value in enumerate(inputs)}
            np.savez(folder / f"{number}.in.npz", **arrays)
        done = subprocess.run([PYTHON, "-I", _SCRIPT, folder], capture_output=True, text=True)
        if done.returncode:
            output = " ".join(done.stderr.split())[-_LAST:]
            raise ToolError(f"TensorFlow Lite Micro ended with status {done.returncode}: {output}")
        return {name: _answer(folder / str(number)) for number, name in enumerate(networks)}


def _answer(path: Path) -> TflmAnswer:
    file = path.with_suffix(".out.npz")
    if not file.exists():
        lines = path.with_suffix(".txt").read_text(errors="replace").splitlines()
        return TflmAnswer(problem=next((line for line in lines if line.strip()), "no reason")[:_LAST])
    with np.load(file) as archive:
        by_inference: dict[int, dict[int, Array]] = {}
        for name in archive.files:
            inference, index = map(int, name.split("_"))
            by_inference.setdefault(inference, {})[index] = archive[name]
    return TflmAnswer(
        tuple(tuple(outputs[index] for index in sorted(outputs)) for _, outputs in sorted(by_inference.items()))
    )
