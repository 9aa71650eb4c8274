"""Vela, the compiler of Ethos-U: the only way to call it, and its output.

ExecuTorch's backend calls Vela itself when it lowers a model (`ethos_hil.lowering.upstream.ethosu` reads that output).
All other code that compiles TOSA for an NPU calls this module. It does not use ExecuTorch's own wrapper, whose import
takes seconds. Either way Vela runs in a process of its own (`ethos_hil.lowering.native`).
"""

from __future__ import annotations

import csv
import errno
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import CompileError, ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.tosa import TosaOperator
from ethos_hil.lowering.formats.vela_blob import VelaBlob, VelaIo, pack
from ethos_hil.lowering.native.failing_operator import PART_SECONDS, crashing_operator, failing_operator
from ethos_hil.lowering.native.worker import VELA, NativeCrash, NativeTool, ToolAnswer, ToolRaised
from ethos_hil.lowering.vela.ini import SHIPPED, VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup

# Neither changes the compiled blob (a test compares it with upstream's); they make Vela write its databases.
DEBUG_FLAGS = ("--verbose-performance", "--enable-debug-db")
_CONFIG = "--config="
_CRASH_HINT = (
    "change that operation or its shapes, or leave it to the CPU (Method.leave); Vela should have refused the program"
)
_NO_SPACE = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT}|{errno.EFBIG})\]")
"""In the message of an OSError that is the machine's fault, not the program's."""
_SPACE_HINT = "check the space in TMPDIR, and the limit of the sizes of files: ulimit -f"
_SUMMARY_TEXTS = ("accelerator_configuration", "system_config", "memory_mode")
_SUMMARY_NUMBERS = (
    "core_clock", "sram_memory_used", "dram_memory_used", "on_chip_flash_memory_used", "off_chip_flash_memory_used",
    "total_original_weights", "total_npu_encoded_weights", "nn_macs", "cycles_npu", "cycles_sram_access",
    "cycles_dram_access", "cycles_on_chip_flash_access", "cycles_off_chip_flash_access", "cycles_total",
)  # fmt: skip


class VelaRefusal(CompileError):
    """Vela reports that it cannot compile the program for the NPU, or would leave a part of it to the CPU."""


class VelaCrash(CompileError):
    """Vela's process ended in the middle of a call, or did not end in time.

    Attributes:
        crash: how it ended.
        operator: the first operator of the TOSA program with which it happens, or None if that is not known.
    """

    def __init__(
        self, crash: NativeCrash, operator: TosaOperator | None, where: str = "", *, version: str | None = None
    ) -> None:
        place = f" on {operator}{where}" if operator is not None else ""
        super().__init__(
            f"Vela {VELA.version if version is None else version} {crash.how}{place}{crash.said}", hint=_CRASH_HINT
        )
        self.crash = crash
        self.operator = operator


@dataclass(frozen=True)
class VelaOutput:
    """The output of one run of Vela.

    Attributes:
        blob: the delegate, as ExecuTorch packs it.
        tosa: the TOSA program that Vela read, with its locations.
        database: the debug database, XML; "" unless Vela's arguments include `DEBUG_FLAGS`.
        summary: Vela's totals, under Vela's names.
        fast_bytes: fast memory (region 2) that the program needs, bytes; the blob does not state it. 0 without a
            dedicated SRAM.
        listing: Vela's console output; "" when ExecuTorch called it.
    """

    blob: bytes
    tosa: bytes
    database: str
    summary: Mapping[str, float | str]
    fast_bytes: int = 0
    listing: str = ""

    @classmethod
    def read(cls, blob: bytes, folder: Path, listing: str = "") -> VelaOutput:
        """Read the files of a run in `folder`, in ExecuTorch's layout."""
        output = folder / "output"
        database = output / "out_debug.xml"
        with np.load(output / "out_vela.npz", allow_pickle=False) as arrays:
            fast_bytes = int(arrays["scratch_fast_size"])
        return cls(
            blob,
            (folder / "out.tosa").read_bytes(),
            database.read_text("utf-8") if database.exists() else "",
            _summary(next(output.glob("out_summary_*.csv")).read_text("utf-8")),
            fast_bytes,
            listing,
        )

    @cached_property
    def parsed(self) -> VelaBlob:
        return VelaBlob.parse(self.blob, "Vela's output")


def flags(npu: EthosU, mode: MemoryMode) -> tuple[str, ...]:
    """Return ExecuTorch's arguments of Vela for an NPU in a memory mode."""
    return VelaSetup.default(npu, mode).flags


def with_ini(arguments: Sequence[str], ini: VelaIni, folder: Path) -> list[str]:
    """Return Vela's arguments with a copy of a user's configuration file in place of the file, which may have changed
    since it was read, or be on another machine.

    Args:
        arguments: Vela's arguments.
        ini: the configuration file that they name.
        folder: where the copy goes.
    """
    if ini.name == SHIPPED:
        return list(arguments)
    copy = folder / "vela.ini"
    copy.write_text(ini.text)
    return [f"{_CONFIG}{copy}" if argument.startswith(_CONFIG) else argument for argument in arguments]


def run_vela(
    tosa: bytes, arguments: Sequence[str], ini: VelaIni | None = None, *, tool: NativeTool = VELA
) -> VelaOutput:
    """Compile a TOSA program.

    Args:
        tosa: the program's flatbuffer.
        arguments: Vela's arguments, as from `flags` or an Artifact's `vela_flags`.
        ini: the configuration file that they name, if it is not the one in Vela's wheel.
        tool: Vela, by default the installed one.

    Raises:
        VelaRefusal: the NPU cannot run the program.
        VelaCrash: Vela's process ends.
        CompileError: Vela fails in another way.
        ToolError: there is no space for its files.
    """
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        folder = Path(name)
        (folder / "out.tosa").write_bytes(tosa)
        if ini is not None:
            arguments = with_ini(arguments, ini, folder)
        try:
            asked = [*arguments, f"--output-dir={folder / 'output'}", str(folder / "out.tosa")]
            answer = call_vela(asked, tool=tool)
        except ToolRaised as error:
            if error.name == "RuntimeError":  # the only exception of its back end
                raise VelaRefusal(" ".join(error.text.split())) from error
            lines = [*error.text.splitlines(), ""]
            if _NO_SPACE.match(error.text):
                raise ToolError(f"Vela could not write its files: {lines[0]}", hint=_SPACE_HINT) from error
            raise CompileError(f"Vela failed with {error.name}: {lines[0]}") from error
        if answer.header["status"]:
            text = " ".join(answer.listing.split())[-300:]
            raise CompileError(f"Vela ended with status {answer.header['status']}: {text}")
        return VelaOutput.read(_pack(folder / "output" / "out_vela.npz"), folder, answer.listing)


def refused_operator(tosa: bytes, arguments: Sequence[str]) -> TosaOperator | None:
    """Return the first operator that Vela refuses of a program that it refuses, or None if that is not known.

    Args:
        tosa: the program.
        arguments: Vela's.
    """

    def refuses(part: bytes) -> bool:
        try:
            run_vela(part, arguments)
        except VelaRefusal:
            return True
        return False

    return failing_operator(tosa, refuses)


def call_vela(arguments: Sequence[str], *, tool: NativeTool = VELA) -> ToolAnswer:
    """Call Vela's command line in its process.

    Args:
        arguments: Vela's. They name a TOSA program, "*.tosa".
        tool: Vela, by default the installed one.

    Returns:
        Its "status", and what it printed.

    Raises:
        ToolRaised: Vela raises an exception.
        VelaCrash: Vela's process ends.
        ToolError: there is no process.
    """
    try:
        return tool.call({"arguments": list(arguments)})
    except NativeCrash as crash:
        if _NO_SPACE.search(crash.said):
            raise ToolError(f"Vela {crash.how}{crash.said}", hint=_SPACE_HINT) from crash
        program = next(argument for argument in arguments if argument.endswith(".tosa"))
        tosa = Path(program).read_bytes()
        operator = crashing_operator(tosa, lambda part: _compile_part(part, arguments, program, tool))
        raise VelaCrash(crash, operator, version=tool.version) from crash


def _compile_part(tosa: bytes, arguments: Sequence[str], program: str, tool: NativeTool) -> None:
    """Compile a part of a program with the arguments for all of it. Raises NativeCrash, ToolRaised."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        path = Path(folder) / "part.tosa"
        path.write_bytes(tosa)
        kept = [word for word in arguments if word != program and not word.startswith("--output-dir=")]
        tool.call({"arguments": [*kept, f"--output-dir={folder}", str(path)]}, seconds=PART_SECONDS)


def _pack(path: Path) -> bytes:
    with np.load(path, allow_pickle=False) as arrays:

        def places(kind: str) -> list[VelaIo]:
            columns = (arrays[f"{kind}_{name}"] for name in ("shape", "elem_size", "offset", "region"))
            return [
                VelaIo(tuple(map(int, shape)), int(size), int(offset), int(region))
                for shape, size, offset, region in zip(*columns, strict=True)
            ]

        return pack(
            arrays["cmd_data"].tobytes(),
            arrays["weight_data"].tobytes(),
            int(arrays["scratch_size"]),
            places("input"),
            places("output"),
        )


def _summary(text: str) -> dict[str, float | str]:
    """Return the columns of Vela's summary that describe the network, under Vela's names."""
    row = next(csv.DictReader(text.splitlines()))
    numbers: dict[str, float | str] = {name: float(row[name]) for name in _SUMMARY_NUMBERS if row.get(name)}
    return {**{name: row[name] for name in _SUMMARY_TEXTS if row.get(name)}, **numbers}
