"""Vela on TensorFlow Lite networks.

The product itself gives Vela TOSA (`ethos_hil.lowering.vela.compiler`). This is for checks of the NPU's model by
another route.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.native.worker import VELA, NativeCrash, NativeTool, ToolAnswer, ToolRaised
from ethos_hil.lowering.vela.compiler import VelaCrash, VelaRefusal, flags
from ethos_hil.lowering.vela.memory_mode import MemoryMode


class Generator(StrEnum):
    """Which of Vela's two code generators compiles: the newer one, or the older one in Python, which knows no U85."""

    REGOR = "regor"
    PYTHON = "python"


# It keeps tables in global variables, so that a second network in the same process is compiled wrongly, or not at all.
_ONCE = NativeTool("vela", VELA.name, "ethos-u-vela")
_FLAGS = {Generator.REGOR: "--debug-force-regor", Generator.PYTHON: "--debug-force-legacy-core"}


def compile_tflite(
    tflite: bytes,
    npu: EthosU,
    *,
    mode: MemoryMode | None = None,
    generator: Generator = Generator.REGOR,
    raw: bool = True,
) -> bytes:
    """Compile a network.

    Args:
        tflite: the network's flatbuffer.
        npu: the NPU.
        mode: the memory mode; None: ExecuTorch's default for the NPU.
        generator: the code generator.
        raw: whether to return an .npz with the one operation of the NPU; otherwise a .tflite, in which Vela may leave
            operators to the CPU. In an .npz the Python generator leaves them out without a word.

    Raises:
        VelaRefusal: Vela leaves an operator to the CPU, and `raw` is set, or refuses the network.
        VelaCrash: Vela's process ends.
        CompileError: Vela fails in another way.
    """
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        folder = Path(name)
        path = folder / "net.tflite"
        path.write_bytes(tflite)
        options = [
            flag for flag in flags(npu, mode or MemoryMode.default(npu)) if not flag.startswith("--output-format")
        ]
        form = f"--output-format={'raw' if raw else 'tflite'}"
        arguments = [*options, form, _FLAGS[generator], f"--output-dir={folder}", str(path)]
        try:
            answer = _called(arguments, generator)
        except ToolRaised as error:
            raise VelaRefusal(f"{error.name}: {' '.join(error.text.split())}") from error
        except NativeCrash as crash:
            raise VelaCrash(crash, None) from crash
        files = sorted(folder.glob("net_vela*.npz" if raw else "net_vela.tflite"))
        if answer.header["status"] or not files:
            text = " ".join(answer.listing.split())[-300:]
            raise CompileError(f"Vela ended with status {answer.header['status']}: {text}")
        return files[0].read_bytes()


def _called(arguments: Sequence[str], generator: Generator) -> ToolAnswer:
    if generator is Generator.REGOR:
        return VELA.call({"arguments": list(arguments)})
    try:
        return _ONCE.call({"arguments": list(arguments)})
    finally:
        _ONCE.stop()
        _ONCE.start()  # for the next network; importing takes as long as compiling
