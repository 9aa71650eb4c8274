"""The runner of files: its command line, files, console and exit status equal those of ExecuTorch's runner for Arm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_qemu import Ended, RunFiles, boot, semihosting
from programs import Exported, export, raw

from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.virtual.tests.programs import planted

COMMAND = "executor_runner -m program.pte -o out"


def write_files(folder: Path, pte: bytes, inputs: Sequence[bytes]) -> str:
    """Write the files that upstream's tests write, and return the command line they use."""
    (folder / "program.pte").write_bytes(pte)
    for number, data in enumerate(inputs):
        (folder / f"i{number}.bin").write_bytes(data)
    return COMMAND + "".join(f" -i i{number}.bin" for number in range(len(inputs)))


def error_line(ended: Ended) -> str:
    """Return the one line that names the error; the exit status must be that of an error too."""
    (line,) = ended.errors()
    assert ended.status == 1
    return line


def test_a_program_runs_from_files(run_runner: RunFiles, exported: Exported, tmp_path: Path) -> None:
    ended = run_runner(write_files(tmp_path, exported.pte, exported.input_set))
    assert (ended.status, ended.errors(), ended.uart) == (0, [], b"")
    assert (tmp_path / "out-0.bin").read_bytes() == raw(exported.outputs[0])
    assert not (tmp_path / "out-1.bin").exists()
    text = "\n".join(ended.lines)
    assert all(line.startswith("I [executorch:arm_executor_runner] ") for line in ended.lines)
    # The labels of upstream's log_mem_status, found as its test_memory_allocator_log.py finds them.
    sizes = {label: int(re.findall(rf"{label}:\s+(\d+)", text)[0]) for label in MEMORY_LABELS}
    assert sizes["model_pte_program_size"] == len(exported.pte)
    assert sizes["input_file_allocator_used"] == -len(exported.pte) // 32 * -32, "pools hand out multiples of 32 bytes"
    assert sizes["method_allocator_planned"] >= 600 * 5
    assert sizes["method_allocator_used"] == sizes["method_allocator_planned"] + sizes["method_allocator_loaded"]
    assert sizes["temp_allocator"] == sizes["fast_scratch"] == 0
    assert sizes["sram_pool_used"] >= sizes["method_allocator_used"]
    assert 1 << 10 < sizes["stack_used"] < 16 << 10


MEMORY_LABELS = (
    *("model_pte_program_size", "model_pte_loaded_size", "input_file_allocator_used", "method_allocator_used"),
    *("method_allocator_planned", "method_allocator_loaded", "method_allocator_input", "method_allocator_executor"),
    *("temp_allocator", "fast_scratch", "sram_pool_used", "ddr_pool_used", "stack_used"),
)


def test_tensors_of_every_type_and_rank_go_through(run_runner: RunFiles, tmp_path: Path) -> None:
    types = (torch.float32, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
    sizes: list[tuple[int, ...]] = [(), (5,), (2, 3), (1, 2, 3), (2, 1, 3, 2), (1, 2, 1, 3, 2), (2, 1, 2, 1, 2, 3)]
    inputs = [(torch.rand(size) * 99).to(dtype) for dtype, size in zip(types, sizes, strict=True)]
    inputs.append(torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last))
    exported = export(lambda *inputs: tuple(x.clone() for x in inputs), tuple(inputs))
    ended = run_runner(write_files(tmp_path, exported.pte, exported.input_set))
    assert (ended.status, ended.errors()) == (0, [])
    for number, output in enumerate(exported.outputs):
        assert (tmp_path / f"out-{number}.bin").read_bytes() == raw(output), f"output {number}"


def test_inputs_that_are_not_tensors_have_an_unread_file(run_runner: RunFiles, tmp_path: Path) -> None:
    def mixed(x: Any, axis: int, flag: bool, nothing: Any, scale: float, y: Any) -> Any:
        assert nothing is None
        return x.unsqueeze(axis), y.clone()

    x, y = torch.rand(3, 4), torch.rand(2)
    exported = export(mixed, (x, 1, True, None, 2.5, y), run=False)
    assert [len(data) for data in exported.input_set] == [48, 8, 1, 8, 8, 8]
    ended = run_runner(write_files(tmp_path, exported.pte, exported.input_set))
    assert (ended.status, ended.errors()) == (0, [])
    assert (tmp_path / "out-0.bin").read_bytes() == raw(x)
    assert (tmp_path / "out-1.bin").read_bytes() == raw(y)


@pytest.mark.parametrize(
    ("command_line", "words"),
    [
        (COMMAND, "takes 1, 0 were given"),
        (COMMAND + " -i i0.bin -i i0.bin", "takes 1, 2 were given"),
        ("executor_runner -m program.pte -i i0.bin", "not right number of parameters: -o is missing"),
        ("executor_runner -o out -i i0.bin", "not right number of parameters: -m is missing"),
        (COMMAND + " -i", "argument -i needs a file name"),
        (COMMAND + " -i i0.bin -v 1", "argument '-v' is not -m, -i, -o or --server_mode"),
        (COMMAND + " -i i0.bin --server_mode", "argument --server_mode needs true or false"),
        (COMMAND + " --server_mode 1 -i i0.bin", "argument --server_mode is true or false, not '1'"),
        (COMMAND + " --server_mode true", "takes 1, 0 were given"),
        (COMMAND + " -o other -i i0.bin", "two arguments -o: out and other"),
        (COMMAND + " -i gone.bin", "cannot open gone.bin (errno 2)"),
        ("executor_runner -m gone.pte -o out -i i0.bin", "cannot open gone.pte (errno 2)"),
        (COMMAND + " -i short.bin", "input size (2396) and tensor size (2400) mismatch"),
        (COMMAND + " -i long.bin", "input size (2404) and tensor size (2400) mismatch"),
        ("executor_runner -m i0.bin -o out -i i0.bin", "program is no .pte this firmware reads"),
        ("executor_runner -m empty.bin -o out -i i0.bin", "program has 0 bytes"),
        ("executor_runner -m cut.pte -o out -i i0.bin", "truncated or corrupt"),
        ("executor_runner -m program.pte -o gone/out -i i0.bin", "cannot open output file gone/out-0.bin (errno 2)"),
        (COMMAND + " -i i0.bin" * 70, "more than 64 inputs"),
        ("executor_runner -m program.pte -o " + "o" * 300 + " -i i0.bin", "longer than 255 characters"),
    ],
)
def test_errors_are_one_line(
    run_runner: RunFiles, exported: Exported, tmp_path: Path, command_line: str, words: str
) -> None:
    write_files(tmp_path, exported.pte, exported.input_set)
    (data,) = exported.input_set
    (tmp_path / "short.bin").write_bytes(data[:-4])
    (tmp_path / "long.bin").write_bytes(data + data[:4])
    (tmp_path / "cut.pte").write_bytes(exported.pte[: len(exported.pte) // 2])
    (tmp_path / "empty.bin").write_bytes(b"")
    assert words in error_line(run_runner(command_line))
    assert not (tmp_path / "out-0.bin").exists()


def test_in_server_mode_each_line_is_a_job(run_runner: RunFiles, exported: Exported, tmp_path: Path) -> None:
    """A line is what upstream's fgets takes for one. What changes from job to job is tested with the launchers."""
    command = write_files(tmp_path, exported.pte, exported.input_set) + " --server_mode "
    ended = run_runner(command + "true")
    assert (ended.status, ended.errors(), (tmp_path / "out-0.bin").exists()) == (0, [], False), "no line, no job"
    ended = run_runner(command + "true", typed=b"go\n\nmore than 15 characters\nno end")
    assert (ended.status, ended.errors()) == (0, [])
    said = [line.removeprefix("I [executorch:arm_executor_runner] ") for line in ended.lines]
    assert said[said.index("Running in semihosting server mode.") + 1 :][: 5 * 3] == [
        line
        for job in range(5)
        for line in ("1 outputs:", "Writing output to file: out-0.bin", f"SERVER_INFERENCE_DONE {job}")
    ]
    assert (tmp_path / "out-0.bin").read_bytes() == raw(exported.outputs[0])
    ended = run_runner(command + "false", typed=b"go\n")
    assert (ended.status, "SERVER_INFERENCE_DONE" in "".join(ended.lines)) == (0, False)


def test_a_job_reads_its_input_again_and_one_that_fails_is_the_last(
    run_runner: RunFiles, exported: Exported, tmp_path: Path
) -> None:
    write_files(tmp_path, exported.pte, exported.input_set)
    (tmp_path / "i0.bin").rename(tmp_path / "out-0.bin")
    ended = run_runner(COMMAND + " -i out-0.bin --server_mode true", typed=b"go\ngo\n")
    assert "input size (600) and tensor size (2400) mismatch: out-0.bin" in error_line(ended)
    assert [line.partition("SERVER_")[2] for line in ended.lines if "SERVER_" in line] == ["INFERENCE_DONE 0"]


def test_words_may_be_quoted(run_runner: RunFiles, exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "my program.pte").write_bytes(exported.pte)
    (tmp_path / "i 0.bin").write_bytes(exported.input_set[0])
    ended = run_runner("""'executor runner'  -m "my program.pte" -o 'the "out"'   -i 'i 0.bin' """)
    assert (ended.status, ended.errors()) == (0, [])
    assert (tmp_path / 'the "out"-0.bin').read_bytes() == raw(exported.outputs[0])


def test_a_fault_ends_the_run(run_runner: RunFiles, firmware: bytes, exported: Exported, tmp_path: Path) -> None:
    address, elf = planted(firmware, "7executeE", b"\x00\xde")  # udf #0
    line = error_line(run_runner(write_files(tmp_path, exported.pte, exported.input_set), elf))
    assert line.startswith(f"E [executorch:fault] Hard fault. irq=6, pc={address:#010x}, ")


def test_a_breakpoint_elsewhere_is_a_fault(firmware: bytes, tmp_path: Path, exported: Exported) -> None:
    # Only the firmware's own semihosting call is stepped over when no one answers it.
    elf = pack(firmware, exported.pte, [exported.input_set], RunPlan(1, 1)).elf
    address, elf = planted(elf, "7executeE", b"\xab\xbe")  # bkpt 0xAB
    fault = boot(elf, tmp_path).one(FrameType.FAULT).fields
    assert (fault["exception"], fault["pc"]) == (3, address)


@pytest.mark.parametrize("command_line", ["executor_runner", "executor_runner  "])
def test_without_arguments_the_missing_package_is_reported(firmware: bytes, tmp_path: Path, command_line: str) -> None:
    boot(firmware, tmp_path, options=semihosting(command_line)).check_error(ErrorKind.PACKAGE, "no package")


def test_a_package_takes_precedence_over_a_command_line(firmware: bytes, tmp_path: Path, exported: Exported) -> None:
    command_line = write_files(tmp_path, exported.pte, exported.input_set)
    elf = pack(firmware, exported.pte, [exported.input_set], RunPlan(1, 1)).elf
    conversation = boot(elf, tmp_path, options=semihosting(command_line))
    assert [tensor.data for tensor in conversation.tensors()] == [raw(exported.outputs[0])]
    assert not (tmp_path / "out-0.bin").exists()
