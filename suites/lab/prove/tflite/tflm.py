"""Runs networks with TensorFlow Lite Micro. The Python of its own environment runs this file as a script; it imports
nothing of the project.

    python tflm.py FOLDER

For each NAME.tflite in the folder it reads NAME.in.npz, with the inputs of each inference as SET_INPUT, and writes
NAME.out.npz in the same way. States go from one inference to the next. What fails is NAME.txt. Each network runs in a
process of its own, because a kernel that does not like it may end the process.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import numpy as np

ARENA_BYTES = 256 << 20


def run(path: Path) -> None:
    """Run one network."""
    from tflite_micro.python.tflite_micro import runtime
    from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

    data = path.read_bytes()
    graph = schema.Model.GetRootAsModel(data, 0).Subgraphs(0)
    with np.load(path.with_suffix(".in.npz")) as archive:
        inputs = {name: archive[name] for name in archive.files}
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=ARENA_BYTES)
    outputs = {}
    for number in range(1 + max(int(name.split("_")[0]) for name in inputs)):
        for index in range(graph.InputsLength()):
            interpreter.set_input(inputs[f"{number}_{index}"], index)
        interpreter.invoke()
        for index in range(graph.OutputsLength()):
            outputs[f"{number}_{index}"] = np.array(interpreter.get_output(index))
    np.savez(path.with_suffix(".out.npz"), **outputs)


def run_alone(path: Path) -> None:
    """Run one network in a process of its own, and keep its error."""
    child = os.fork()
    if child == 0:
        log = os.open(path.with_suffix(".txt"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            run(path)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status and not path.with_suffix(".out.npz").exists():
        with path.with_suffix(".txt").open("a") as file:
            file.write(f"\nthe process ended with status {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.tflite")):
        run_alone(path)
