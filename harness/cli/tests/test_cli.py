"""The command line: bad input ends in one clear line and the right exit status, and nothing is lost or half-written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, full_disk
from ethos_hil.harness.testing.snapshot import Snapshot
from ethos_hil.harness.virtual.tests.programs import DATA


def test_a_model_that_cannot_be_loaded(ethos_hil: Run) -> None:
    check_errors(ethos_hil, "run", lowers=True, table=Snapshot("""
        absent.py:net: 2 ethos-hil: no such file: absent.py (did you mean net.py?)
        nett.py:net: 2 ethos-hil: no such file: nett.py (did you mean net.py?)
        net.py: 2 ethos-hil: MODEL 'net.py' names no function (give file.py:function,
            package.module:function, a .pt2, a .pte or a .bpte)
        absent.pte: 2 ethos-hil: no such file: absent.pte (give file.py:function, package.module:function, a
            .pt2, a .pte or a .bpte)
        absent.pt2: 2 ethos-hil: no such file: absent.pt2 (give file.py:function, package.module:function, a
            .pt2, a .pte or a .bpte)
        no.such.package:net: 2 ethos-hil: no such module: no (from MODEL 'no.such.package:net') (give
            file.py:function, package.module:function, a .pt2, a .pte or a .bpte)
        net.py:nett: 2 ethos-hil: net.py has no function 'nett' (did you mean net? functions there: broken,
            huge, net, not_a_module, nothing, untraceable, wrong_inputs)
        net.py:nothing: 2 ethos-hil: net.py:nothing returned None (it must return (module, example_inputs)
            or (module, example_inputs, calibration_inputs), or a dictionary of these by method name)
        net.py:not_a_module: 2 ethos-hil: net.py:not_a_module returned (a int, (float32[1])) (it must return
            (module, example_inputs) or (module, example_inputs, calibration_inputs), or a dictionary of
            these by method name)
        net.py:wrong_inputs: 2 ethos-hil: net.py:wrong_inputs: calling the module with its example inputs
            failed: RuntimeError: Given groups=1, weight of size [4, 2, 3, 3], expected input[1, 3, 8, 8] to
            have 2 channels, but got 3 channels instead (net.py:10) (the example inputs are (float32[1, 3,
            8, 8]))
        net.py:broken: 2 ethos-hil: net.py:broken raised RuntimeError: the weights file is missing
            (net.py:33) (it must return (module, example_inputs) or (module, example_inputs,
            calibration_inputs), or a dictionary of these by method name, without arguments)
        net.py:untraceable: 2 ethos-hil: exporting the model failed (net.py:14, `x.sum() > 0`):
            GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1) (unhinted:
            Eq(u0, 1)). (Size-like symbols: none) (what a model does must not depend on the values it is
            given; choose with torch.where or torch.cond, or leave it out)
    """))  # fmt: skip


def test_what_a_run_cannot_use_is_told_before_the_model_is_loaded(ethos_hil: Run) -> None:
    check_errors(ethos_hil, "run net.py:net", Snapshot("""
        --target nowhere: 2 ethos-hil: no target is called 'nowhere' (targets: board, corstone-300,
            corstone-310, corstone-320, virtual)
        --inputs x.npz: 2 ethos-hil: no such inputs file: x.npz
        --json no/such/file: 2 ethos-hil: cannot write no/such/file: No such file or directory (nothing was
            written there)
        --json .: 2 ethos-hil: cannot write .: Is a directory (nothing was written there)
    """))  # fmt: skip


def test_inputs_of_wrong_shape_or_dtype_say_expected_and_found(ethos_hil: Run, here: Path) -> None:
    np.savez(here / "shape.npz", np.zeros((1, 2, 8, 7), np.float32))
    np.savez(here / "dtype.npz", np.zeros((1, 2, 8, 8), np.float64))
    check_errors(ethos_hil, "run net.py:net --inputs", lowers=True, table=Snapshot("""
        shape.npz: 2 ethos-hil: shape.npz: array 'arr_0': expected float32[1, 2, 8, 8], or one more leading
            axis for several sets; found float32[1, 2, 8, 7]
        dtype.npz: 2 ethos-hil: dtype.npz: array 'arr_0': expected float32[1, 2, 8, 8], or one more leading
            axis for several sets; found float64[1, 2, 8, 8]
    """))  # fmt: skip


def test_a_program_that_is_none_or_for_another_npu(ethos_hil: Run, here: Path) -> None:
    program = (DATA / "add.pte").read_bytes()
    contents = {"empty": b"", "cut": program[:1000], "random": np.random.default_rng(0).bytes(5000), "text": b"hello\n"}
    for name, content in {**contents, "right": program}.items():
        (here / f"{name}.pte").write_bytes(content)
    check_errors(ethos_hil, "run", lowers=True, table=Snapshot("""
        empty.pte: 2 ethos-hil: empty.pte: not a usable ExecuTorch program: it has 0 bytes, expected at
            least 8 (give a complete .pte of ExecuTorch 1.x)
        cut.pte: 2 ethos-hil: cut.pte: not a usable ExecuTorch program: the offset at byte 960 leads to byte
            3460 of 1000 (give a complete .pte of ExecuTorch 1.x)
        random.pte: 2 ethos-hil: random.pte: not a usable ExecuTorch program: bytes 4 to 7 are
            b'\\xcf\\xeb\\x0f\\xa3', expected b'ET12' (give a complete .pte of ExecuTorch 1.x)
        text.pte: 2 ethos-hil: text.pte: not a usable ExecuTorch program: it has 6 bytes, expected at least
            8 (give a complete .pte of ExecuTorch 1.x)
        right.pte --npu ethos-u55-64: 2 ethos-hil: right.pte is compiled for ethos-u55-128, not for
            ethos-u55-64 (use --npu ethos-u55-128, or lower the model again for ethos-u55-64)
    """))  # fmt: skip


def pte(here: Path) -> bytes:
    """The .pte of net.py:net, made by the product itself."""
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import load_model

    return lower(load_model(str(here / "net.py") + ":net"), EthosU.parse("ethos-u55-128")).pte


def test_a_program_lowered_here_is_verified_and_a_stranger_is_never_green(ethos_hil: Run, here: Path) -> None:
    program = pte(here)
    (here / "net.pte").write_bytes(program)
    assert ethos_hil("run", "net.pte").status == 0
    # Trailing bytes change nothing for the device, but nothing vouches for this file any more.
    (here / "stranger.pte").write_bytes(program + bytes(16))
    np.savez(here / "x.npz", np.zeros((1, 2, 8, 8), np.float32))
    result = ethos_hil("run", "stranger.pte", "--inputs", "x.npz", "--json", "r.json")
    assert result.status == 1
    assert result.out.startswith("unverified")
    record = json.loads((here / "r.json").read_text())
    assert (record["verdict"], record["failure"]["kind"]) == ("unverified", "no-reference")


# --- Preflight. ---


def test_preflight_shows_what_is_needed_and_available(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("preflight", "net.py:net", "--json", "p.json")
    assert result.status == 0, result.err
    for word in ("check", "needed", "available", "scratch", "planned", "package", "stack", "kernels"):
        assert word in result.out
    document = json.loads((here / "p.json").read_text())
    assert (document["schema_version"], document["verdict"], document["npu"]) == (1, "ok", "ethos-u55-128")
    assert document["target"] == {"name": "virtual", "kind": "virtual", "soc": "corstone-300", "rules": []}
    assert {"name", "needed", "available", "status", "fix"} == document["checks"][0].keys()


def test_preflight_of_a_program_for_another_npu_and_memory_mode_shows_both(ethos_hil: Run, here: Path) -> None:
    (here / "net.pte").write_bytes(pte(here))
    arguments = ("preflight", "net.pte", "--npu", "ethos-u55-256", "--memory-mode", "Sram_Only")
    result = ethos_hil(*arguments)
    assert result.status == 1
    assert result.out.count("fail") == 2
    document = json.loads(ethos_hil(*arguments, "--json", "-").out)
    assert document["verdict"] == "failed"
    failed = {check["name"]: check["fix"] for check in document["checks"] if check["status"] == "fail"}
    assert "--npu ethos-u55-128" in failed["npu"]
    assert "--memory-mode Shared_Sram" in failed["memory mode"]


def test_what_cannot_be_used_or_is_not_there(ethos_hil: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running and asking beforehand say the same."""
    monkeypatch.setenv("ETHOS_HIL_FVP_PATH", "/nowhere")
    expected = Snapshot("""
        --npu ethos-u56-128: 2 ethos-hil: 'ethos-u56-128' is not an Ethos-U configuration (did you mean
            ethos-u85-128? valid: ethos-u55-32, ethos-u55-64, ethos-u55-128, ethos-u55-256, ethos-u65-256,
            ethos-u65-512, ethos-u85-128, ethos-u85-256, ethos-u85-512, ethos-u85-1024, ethos-u85-2048)
        --npu ethos-u55-100: 2 ethos-hil: 'ethos-u55-100' is not an Ethos-U configuration (did you mean
            ethos-u55-128? valid: ethos-u55-32, ethos-u55-64, ethos-u55-128, ethos-u55-256, ethos-u65-256,
            ethos-u65-512, ethos-u85-128, ethos-u85-256, ethos-u85-512, ethos-u85-1024, ethos-u85-2048)
        --memory-mode Shared_Ram: 2 ethos-hil: 'Shared_Ram' is not a memory mode of Vela (did you mean
            Shared_Sram? valid: Shared_Sram, Sram_Only, Dedicated_Sram, Dedicated_Sram_256KB,
            Dedicated_Sram_384KB, Dedicated_Sram_512KB)
        --memory-mode Dedicated_Sram: 2 ethos-hil: the memory mode Dedicated_Sram is not for ethos-u55-128:
            Vela knows no Ethos-U55 that can write to DRAM (use --memory-mode Shared_Sram or Sram_Only, or
            an Ethos-U65 or -U85)
        --runner absent.elf: 2 ethos-hil: --runner absent.elf cannot be read: No such file or directory
            (give the ELF of an arm_executor_runner)
        --target corstone-320: 2 ethos-hil: the target corstone-320 cannot have an ethos-u55-128 (use
            --target corstone-300, or one of ethos-u85-128, ethos-u85-256, ethos-u85-512, ethos-u85-1024,
            ethos-u85-2048)
    """)
    check_errors(ethos_hil, "run net.py:net", expected)
    check_errors(ethos_hil, "preflight net.py:net", expected)
    monkeypatch.setenv("PATH", "/nowhere")
    for command in ("run", "preflight"):
        ended = ethos_hil(command, "net.py:net", "--target", "corstone-300")
        assert_one_clear_line(ended, 3, "FVP_Corstone_SSE-300_Ethos-U55", "fvp-launchers")


def test_debug_shows_the_traceback(ethos_hil: Run) -> None:
    assert "Traceback" in ethos_hil("run", "absent.py:net", "--debug").err
    assert "Traceback" not in ethos_hil("run", "absent.py:net").err


def test_a_json_file_that_cannot_be_written_is_an_error_and_the_record_is_kept(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("run", "net.py:net", "--json", "/dev/full")
    assert result.status == 2
    assert result.out.startswith("verified"), "the run itself is not lost"
    assert result.err.splitlines()[-1] == (
        "ethos-hil: cannot write /dev/full: No space left on device (nothing was written there)"
    )
    assert ethos_hil("runs").out.count("verified") == 1


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(ethos_hil: Run, here: Path) -> None:
    (here / "r.json").write_text("before")
    with full_disk(600):
        ended = ethos_hil("run", "absent.py:net", "--json", "r.json")
    assert ended.status == 2
    assert any(line.startswith("ethos-hil: cannot write r.json") for line in ended.err.splitlines())
    assert (here / "r.json").read_text() == "before"
    assert not list(here.glob(".r.json*"))
