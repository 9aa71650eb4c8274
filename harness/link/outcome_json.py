"""Answers of a target or the reference model, as JSON and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ethos_hil.base.board_run import BoardRun
from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Outcome, Run
from ethos_hil.lowering.oracle.reference import ReferenceRun

Arrays = dict[str, np.ndarray]
"""Arrays by name."""


def outcome_to_json(outcome: Outcome, arrays: Arrays) -> dict[str, Any]:
    """Return an outcome as JSON; its arrays are added to `arrays` under the names in the JSON."""
    runs = []
    for number, run in enumerate(outcome.runs):
        calls: list[dict[str, Any]] = []
        for call in run.delegates:
            calls.append(
                {
                    "instruction": call.instruction,
                    "delegate": call.delegate,
                    "cycles": call.cycles,
                    "events": call.events,
                    "wrapped": call.wrapped,
                    "outputs": _keep(call.outputs, f"run{number}.call{len(calls)}", arrays),
                    "op_events": [list(dataclasses.astuple(event)) for event in call.op_events],
                }
            )
        runs.append(
            {
                "input_set": run.input_set,
                "repeat": run.repeat,
                "outputs": _keep(run.outputs, f"run{number}", arrays),
                "delegates": calls,
                "stack_used": run.stack_used,
                "counted": run.counted,
            }
        )
    return {
        "run_id": outcome.run_id.hex(),
        "image_hash": outcome.image_hash.hex(),
        "program_hash": outcome.program_hash.hex(),
        "npu_id": outcome.npu_id,
        "npu_config": outcome.npu_config,
        "memory": outcome.memory,
        "runs": runs,
        "console": outcome.console,
        "seconds": outcome.seconds,
        "notes": outcome.notes,
        "board": None if outcome.board is None else dataclasses.asdict(outcome.board),
    }


def outcome(data: Mapping[str, Any], arrays: Arrays) -> Outcome:
    """Return the outcome of `outcome_to_json`'s output. Raises KeyError or TypeError where it has another form."""
    runs = []
    for run in data["runs"]:
        calls = tuple(
            DelegateRun(
                instruction=call["instruction"],
                delegate=call["delegate"],
                cycles=call["cycles"],
                events=tuple(call["events"]),
                outputs=_read(call["outputs"], arrays),
                op_events=tuple(OpEvent(*event) for event in call["op_events"]),
                wrapped=call["wrapped"],
            )
            for call in run["delegates"]
        )
        outputs = _read(run["outputs"], arrays)
        runs.append(Run(run["input_set"], run["repeat"], outputs, calls, run["stack_used"], run["counted"]))
    return Outcome(
        run_id=bytes.fromhex(data["run_id"]),
        image_hash=bytes.fromhex(data["image_hash"]),
        program_hash=bytes.fromhex(data["program_hash"]),
        npu_id=data["npu_id"],
        npu_config=data["npu_config"],
        memory=dict(data["memory"]),
        runs=tuple(runs),
        console=tuple(data["console"]),
        seconds=dict(data["seconds"]),
        notes=tuple(data.get("notes", ())),  # recordings of older releases have none
        board=None if data.get("board") is None else BoardRun(**data["board"]),
    )


def answer_to_json(answer: ReferenceRun, arrays: Arrays) -> dict[str, Any]:
    """Return an answer as JSON; its arrays are added to `arrays` under the names in the JSON."""
    calls = [
        {
            "instruction": at,
            "inputs": _keep(answer.delegate_inputs.get(at, ()), f"call{at}.in", arrays),
            "outputs": _keep(outputs, f"call{at}.out", arrays),
        }
        for at, outputs in answer.delegate_outputs.items()
    ]
    return {"outputs": _keep(answer.outputs, "out", arrays), "delegates": calls}


def answer(data: Mapping[str, Any], arrays: Arrays) -> ReferenceRun:
    """Return the answer of `answer_to_json`'s output."""
    return ReferenceRun(
        outputs=_read(data["outputs"], arrays),
        delegate_outputs={call["instruction"]: _read(call["outputs"], arrays) for call in data["delegates"]},
        delegate_inputs={call["instruction"]: _read(call["inputs"], arrays) for call in data["delegates"]},
    )


def _keep(values: tuple[np.ndarray, ...], prefix: str, arrays: Arrays) -> list[str]:
    names = [f"{prefix}.{index}" for index in range(len(values))]
    arrays.update(zip(names, values, strict=True))
    return names


def _read(names: list[str], arrays: Arrays) -> tuple[np.ndarray, ...]:
    return tuple(arrays[name] for name in names)
