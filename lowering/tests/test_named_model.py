"""A MODEL that was lowered before is found without torch, and loaded again when what it is made from changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

from ethos_hil.lowering.made_from import imported_files
from ethos_hil.lowering.made_from.chance import CommonGenerators

HEAD = """
import torch
from torch import nn

class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor

def net():
    {body}
    return Times(float(factor)), (torch.ones(1, 4),)
"""
KNOWN = {
    "text": "factor = 2",
    "neighbour": "import layers; factor = layers.FACTOR",
    "computed": "import importlib; factor = importlib.import_module('pla' + 'tes').FACTOR",
    "later": "from blocks import inner; factor = inner.FACTOR",
    "reads": "from pathlib import Path; factor = Path('data.txt').read_text()",
    "loads": "factor = torch.load('weights.pt')",
    "looks": "from pathlib import Path; factor = 3 if Path('missing.pt').exists() else 2",
    "lists": "import os; factor = len(os.listdir('folder'))",
    "variable": "import os; factor = os.environ.get('FACTOR', '2')",
    "scripted": "factor = torch.jit.load('scripted.pt')(torch.ones(1)).item()",
    "seeded": "import random, numpy; torch.manual_seed(0); numpy.random.seed(0); random.seed(0); "
    "factor = 1 + torch.rand(1).item() + numpy.random.rand() + random.random()",
    "elsewhere": "factor = 2",
}
UNKNOWN = {
    "clock": ("import time; factor = 2 + time.time() % 1", "asks for the time (time.time)"),
    "entropy": ("import os; factor = 2 + os.urandom(1)[0]", "draws random numbers without a seed (os.urandom)"),
    "torchs": ("factor = 1 + torch.rand(1).item()", "draws random numbers without torch.manual_seed"),
    "numpys": ("import numpy; factor = 1 + numpy.random.rand()", "draws random numbers without numpy.random.seed"),
    "pythons": ("import random; factor = 1 + random.random()", "draws random numbers without random.seed"),
    "late_seed": ("factor = 1 + torch.rand(1).item(); torch.manual_seed(0)", "without torch.manual_seed"),
    "forked": (
        "f = torch.random.fork_rng(); f.__enter__(); torch.manual_seed(1); f.__exit__(None, None, None); "
        "factor = 1 + torch.rand(1).item()",
        "without torch.manual_seed",
    ),
    "process": ("import subprocess; factor = subprocess.check_output(['echo', '3'])", "starts a process (echo)"),
    "host": ("import socket; factor = len(socket.gethostname())", "asks for the name of the host"),
    "arguments": ("import sys; factor = len(sys.argv) + 1", "reads the command line"),
    "variables": ("import os; factor = len(dict(os.environ))", "reads all environment variables"),
    "system": ("factor = len(open('/proc/meminfo').read())", "reads /proc/meminfo"),
}
ASK = """
import json, os, sys
from pathlib import Path
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.made_from.named_model import lower_named
from ethos_hil.lowering.formats.tosa_spec import TosaSpec

found = {}
here = Path.cwd()
for name in sys.argv[2:]:
    os.chdir(here / name)
    text = f"{here}/{name}/net.py:net" if name != "exported" else "net.pt2"
    if name == "elsewhere" and os.environ.get("AWAY"):
        os.chdir(here)
    stages = []
    lowered = lower_named(text, TosaSpec.parse("TOSA-1.0+FP"), cache=Cache(Path(sys.argv[1])), progress=stages.append)
    found[name] = [bool(stages), lowered.artifact.sha256, list(lowered.notes)]
print(json.dumps({"torch": "torch" in sys.modules, "found": found}))
"""


def ask(root: Path, names: Iterable[str], **variables: str) -> tuple[bool, dict[str, tuple[bool, str, list[str]]]]:
    """Lower the models in a process of its own. Return whether it imported torch, and of each model whether it was
    loaded, the digest of its program, and its notes.
    """
    command = [sys.executable, "-c", ASK, str(root / "cache"), *names]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["torch"], answer["found"]


def write(root: Path) -> None:
    for name, body in (*KNOWN.items(), *((name, body) for name, (body, _) in UNKNOWN.items())):
        folder = root / name
        folder.mkdir()
        (folder / "net.py").write_text(HEAD.format(body=body))
    (root / "neighbour/layers.py").write_text("FACTOR = 2\n")
    (root / "neighbour/net.py").write_text("import layers\n" + HEAD.format(body="factor = layers.FACTOR"))
    (root / "computed/plates.py").write_text("FACTOR = 2\n")
    (root / "later/blocks").mkdir()
    (root / "later/blocks/inner.py").write_text("from .deep import FACTOR\n")
    (root / "later/blocks/deep.py").write_text("FACTOR = 2\n")
    (root / "later/net.py").write_text("import blocks.inner\n" + HEAD.format(body=KNOWN["later"]))
    (root / "reads/data.txt").write_text("2")
    torch.save(torch.tensor(2.0), root / "loads/weights.pt")
    (root / "lists/folder").mkdir()
    (root / "lists/folder/one").touch()
    (root / "exported").mkdir()
    write_exported(root, 2)
    write_scripted(root, 2)


class ScaledBy(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def write_exported(root: Path, factor: float) -> None:
    torch.export.save(torch.export.export(ScaledBy(factor), (torch.ones(1, 4),)), root / "exported/net.pt2")


def write_scripted(root: Path, factor: float) -> None:
    torch.jit.save(torch.jit.trace(ScaledBy(factor), torch.ones(1)), root / "scripted/scripted.pt")


def change(root: Path) -> None:
    (root / "text/net.py").write_text(HEAD.format(body="factor = 7"))
    (root / "neighbour/layers.py").write_text("FACTOR = 7\n")
    (root / "computed/plates.py").write_text("FACTOR = 7\n")
    (root / "later/blocks/deep.py").write_text("FACTOR = 7\n")
    (root / "reads/data.txt").write_text("7")
    torch.save(torch.tensor(7.0), root / "loads/weights.pt")
    (root / "looks/missing.pt").touch()
    (root / "lists/folder/two").touch()
    (root / "seeded/net.py").write_text(HEAD.format(body=KNOWN["seeded"].replace("seed(0)", "seed(1)")))
    write_exported(root, 7)
    write_scripted(root, 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        pytest.param(("neighbour", "reads", "seeded", "elsewhere", "exported"), ("clock", "torchs"), id="some"),
        pytest.param((*KNOWN, "exported"), tuple(UNKNOWN), id="all", marks=pytest.mark.proof),
    ],
)
def test_a_model_is_found_until_what_it_is_made_from_changes(
    tmp_path: Path, names: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    write(tmp_path)
    _, first = ask(tmp_path, [*names, *unknown])
    assert all(loaded for loaded, _, _ in first.values())
    assert {name: notes for name, (_, _, notes) in first.items() if name in names and notes} == {}
    for name in unknown:
        _, why = UNKNOWN[name]
        assert [why in note and note.startswith("loaded again") for note in first[name][2]] == [True], (
            name,
            first[name],
        )

    imported, again = ask(tmp_path, names)
    assert {name: answer for name, answer in again.items() if answer != [False, *first[name][1:]]} == {}
    assert not imported

    change(tmp_path)
    _, third = ask(tmp_path, [*names, *unknown], FACTOR="7", AWAY="1")
    assert [name for name, (loaded, _, _) in third.items() if not loaded] == []
    same = {name for name in names if third[name][1] == first[name][1]}
    assert same == {"elsewhere"}, "it was read where it changed, and nothing of an old program was given"


def test_a_generator_that_gives_other_numbers_in_each_run_is_named() -> None:
    import random

    import numpy as np

    generators = CommonGenerators()
    with generators.watch():
        np.random.seed(0)
        np.random.rand()
    random.random()
    assert "numpy.random.seed" not in list(generators.find_unseeded())
    assert "random.seed" in list(generators.find_unseeded())
    with (again := CommonGenerators()).watch():
        np.random.rand()
        np.random.seed(0)
    assert "numpy.random.seed" in list(again.find_unseeded())
    with (chance := CommonGenerators()).watch():
        np.random.seed()
    assert "numpy.random.seed" in list(chance.find_unseeded())


def test_the_command_that_was_started_is_no_part_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment often lies in the project's folder, and a model may import by a computed name."""
    command = tmp_path / "bin/ethos-hil"
    command.parent.mkdir()
    command.touch()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(command), raising=False)
    assert command in imported_files.loaded_files(), "a user's own script is"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert command not in imported_files.loaded_files()
