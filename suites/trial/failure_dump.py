"""All facts about a failed test, as files to inspect."""

from __future__ import annotations

import json
import shutil
import tempfile
import traceback
from pathlib import Path

import numpy as np

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.record import Record
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.run import image_of
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.suites.trial.declared import Declared
from ethos_hil.suites.trial.run_trial import Trial

_Tensors = dict[str, np.ndarray]


def place(test: Declared, folder: Path, root: Path) -> Path:
    """Return the path for a test's files in a folder: its file's path below `root`, and its name."""
    file = test.file.relative_to(root) if test.file.is_relative_to(root) else Path(test.file.name)
    return folder / file.with_suffix("") / f"{test.name}_{test.profile.name}"


def keep(folder: Path, trial: Trial, record: Record, error: BaseException | None) -> None:
    """Put all of it into `folder`, in place of its present content.

    | file | what |
    |---|---|
    | record.json | the record |
    | console.txt | the target's console output |
    | error.txt | the traceback, where there is no answer |
    | artifact/ | program, each delegate's TOSA and Vela blobs, delegate map (artifact.json), inputs, expected |
    | image.elf | the firmware with the program packed into it |
    | expected.npz, found.npz | the outputs, also of each delegate |

    Raises:
        OSError: a file cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        fresh = Path(scratch, folder.name)
        fresh.mkdir()
        (fresh / "record.json").write_text(json.dumps(record.to_json(), indent=1) + "\n")
        (fresh / "console.txt").write_text("".join(f"{line}\n" for line in record.console))
        if error is not None:
            (fresh / "error.txt").write_text("".join(traceback.format_exception(error)))
        if trial.artifact is not None:
            (fresh / "artifact").mkdir()
            trial.artifact.save(fresh / "artifact")
            for name, make in (("image.elf", _image), ("expected.npz", _expect), ("found.npz", _find)):
                try:
                    data = make(trial)
                except EthosHilError as reason:  # this may be what failed
                    (fresh / f"{name}.txt").write_text(f"{reason.message}\n")
                    continue
                if isinstance(data, bytes):
                    (fresh / name).write_bytes(data)
                elif data:
                    np.savez(fresh / name, **data)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)


def _image(trial: Trial) -> bytes | None:
    artifact, board = trial.artifact, trial.board
    if artifact is None or board is None:
        return None
    return image_of(artifact, Footprint.of(artifact), find_firmware(board.soc), [artifact.example_inputs]).elf


def _expect(trial: Trial) -> _Tensors:
    artifact = trial.artifact
    if artifact is None:
        return {}
    if trial.test.profile.npu is None:
        return _name("quantised", artifact.quantised) | _name("floating", artifact.floating)
    inputs = artifact.example_inputs
    reference = trial.report.references[0] if trial.report is not None else Reference(artifact).run(inputs)
    outputs = _name("output", reference.outputs)
    for at, values in reference.delegate_outputs.items():
        outputs |= _name(f"delegate_call_{at}_output", values)
    return outputs


def _find(trial: Trial) -> _Tensors:
    if trial.answer is not None:
        return _name("output", trial.answer.outputs)
    tensors: _Tensors = {}
    for run in trial.report.outcome.runs if trial.report is not None else ():
        tensors |= _name("output", run.outputs)
        for call in run.delegates:
            tensors |= _name(f"delegate_call_{call.instruction}_output", call.outputs)
    return tensors


def _name(prefix: str, values: tuple[np.ndarray, ...]) -> _Tensors:
    return {f"{prefix}_{index}": value for index, value in enumerate(values)}
