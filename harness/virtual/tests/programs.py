"""Two small compiled programs with their inputs and right answers, recorded so that these tests need no compiler.

`python -m ethos_hil.harness.virtual.tests.programs` makes them again, with this repository's lowering and
tosa_reference_model.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

DATA = Path(__file__).parent / "data"
NPU = "ethos-u55-128"


@dataclass(frozen=True)
class Recorded:
    """A program, bytes of its inputs, the program's outputs, and those of its only delegate."""

    pte: bytes
    inputs: tuple[bytes, ...]
    outputs: tuple[np.ndarray, ...]
    delegate_outputs: tuple[np.ndarray, ...]


def load(name: str, folder: Path = DATA) -> Recorded:
    """The program called "add" (two inputs) or "convolutions" (weights, look-up table, two outputs)."""
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)

    def all_of(kind: str) -> tuple[np.ndarray, ...]:
        return tuple(arrays[f"{kind}{i}"] for i in range(sum(key.startswith(kind) for key in arrays)))

    return Recorded(
        pte=(folder / f"{name}.pte").read_bytes(),
        inputs=tuple(array.tobytes() for array in all_of("input")),
        outputs=all_of("output"),
        delegate_outputs=all_of("delegate"),
    )


def planted(elf: bytes, function: str, code: bytes) -> tuple[int, bytes]:
    """Overwrite the start of the function whose mangled name contains a text. Return its address, and the new ELF."""
    file = ELFFile(io.BytesIO(elf))
    symbols = file.get_section_by_name(".symtab").iter_symbols()
    (address,) = {symbol["st_value"] & ~1 for symbol in symbols if function in symbol.name}
    (at,) = (
        address - part["p_vaddr"] + part["p_offset"]
        for part in file.iter_segments("PT_LOAD")
        if part["p_vaddr"] <= address < part["p_vaddr"] + part["p_filesz"]
    )
    return address, elf[:at] + code + elf[at + len(code) :]


def models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The models of the programs, with the inputs that are recorded."""
    import torch
    from torch import nn

    from ethos_hil.lowering.testing.function_module import keeping, module_of

    def convolutions(net: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.max_pool2d(torch.sigmoid(net.first(x)), 3, 2, 1)
        return net.last(y.mean((2, 3))), y

    torch.manual_seed(0)
    return {
        "add": (module_of(lambda x, y: x + y), (torch.randn(1, 4, 4, 3), torch.randn(1, 4, 4, 3))),
        "convolutions": (
            keeping(convolutions, first=nn.Conv2d(3, 8, 3, stride=2, padding=1), last=nn.Linear(8, 4)),
            (torch.randn(1, 3, 16, 16),),
        ),
    }


def record(npu: str = NPU, folder: Path = DATA) -> None:
    """Compile both programs for `npu` and write them, with their answers, to `folder`."""
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module
    from ethos_hil.lowering.oracle.reference import Reference

    folder.mkdir(exist_ok=True)
    for name, (module, inputs) in models().items():
        artifact = lower(from_module(module, inputs, label=name), EthosU.parse(npu))
        arrays = [tensor.numpy() for tensor in inputs]
        run = Reference(artifact).run(arrays)
        (answers,) = run.delegate_outputs.values()
        recorded = {f"input{i}": array for i, array in enumerate(arrays)}
        recorded |= {f"output{i}": array for i, array in enumerate(run.outputs)}
        recorded |= {f"delegate{i}": array for i, array in enumerate(answers)}
        (folder / f"{name}.pte").write_bytes(artifact.pte)
        np.savez(folder / f"{name}.npz", **recorded)


if __name__ == "__main__":
    record()
