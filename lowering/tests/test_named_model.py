"""A MODEL that was lowered before is found without torch, and loaded again when what it is made from changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import LoweringOptions
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.made_from import model_fingerprint, named_model
from ethos_hil.lowering.made_from.file_watch import depends_on, loaded_files
from ethos_hil.lowering.made_from.named_model import lower_named
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.user_code.user_function import load_function

HEAD = """
import os
import torch
from torch import nn
from ethos_hil import depends_on

def weights(name):
    '''As native code does: Python does not report it.'''
    libc = __import__("ctypes").CDLL(None)
    text = __import__("ctypes").create_string_buffer(10)
    file = libc.open(name.encode(), 0)
    libc.read(file, text, 10)
    libc.close(file)
    return float(text.value)

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
    "neighbour": "import layers; factor = layers.FACTOR",
    "computed": "import importlib; factor = importlib.import_module('pla' + 'tes').FACTOR",
    "reads": "from pathlib import Path; factor = Path('data.txt').read_text()",
    "beside": "open('local/config.json').read(); factor = weights('local/model.safetensors')",
    "told": "depends_on('told.h5', variables=['FACTOR']); factor = weights('told.h5')",
    "variable": "depends_on(variables=['FACTOR']); factor = os.environ.get('FACTOR', '2')",
    "elsewhere": "factor = 2",
}
UNKNOWN = {
    "fresh": ("depends_on(fresh=True); factor = 2", "net.py asks for that: depends_on(fresh=True)"),
    "native": ("import h5py; factor = 2", "uses h5py, which reads files unseen: name them with ethos_hil.depends_on"),
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


MADE_FROM = {
    "neighbour/layers.py": "FACTOR = {}\n", "computed/plates.py": "FACTOR = {}\n", "reads/data.txt": "{}",
    "beside/local/model.safetensors": "{}", "told/told.h5": "{}",
}  # fmt: skip


def write(root: Path) -> None:
    for name, body in (*KNOWN.items(), *((name, body) for name, (body, _) in UNKNOWN.items())):
        folder = root / name
        folder.mkdir()
        (folder / "net.py").write_text(HEAD.format(body=body))
    (root / "neighbour/net.py").write_text("import layers\n" + HEAD.format(body="factor = layers.FACTOR"))
    (root / "beside/local").mkdir()
    (root / "beside/local/config.json").write_text("{}")
    (root / "native/h5py.py").touch()
    (root / "exported").mkdir()
    set_factor(root, 2)


def set_factor(root: Path, factor: int) -> None:
    for name, text in MADE_FROM.items():
        (root / name).write_text(text.format(factor))
    exported = torch.export.export(module_of(lambda x: x * factor), (torch.ones(1, 4),))
    torch.export.save(exported, root / "exported/net.pt2")


@pytest.mark.slow
def test_a_model_is_found_until_what_it_is_made_from_changes(tmp_path: Path) -> None:
    names, unknown = [*KNOWN, "exported"], list(UNKNOWN)
    write(tmp_path)
    _, first = ask(tmp_path, [*names, *unknown])
    assert all(loaded for loaded, _, _ in first.values())
    assert {name: notes for name, (_, _, notes) in first.items() if name in names and notes} == {}
    for name in unknown:
        _, why = UNKNOWN[name]
        notes = first[name][2]
        assert [why in note and note.startswith("loaded again") for note in notes] == [True], (name, notes)

    imported, again = ask(tmp_path, names)
    assert {name: answer for name, answer in again.items() if answer != [False, *first[name][1:]]} == {}
    assert not imported

    set_factor(tmp_path, 7)
    _, third = ask(tmp_path, [*names, *unknown], FACTOR="7", AWAY="1")
    assert [name for name, (loaded, _, _) in third.items() if not loaded] == []
    same = {name for name in names if third[name][1] == first[name][1]}
    assert same == {"elsewhere"}, "it was read where it changed, and nothing of an old program was given"


def test_another_package_or_option_makes_it_lowered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name that was imported before, while nothing was watched, is another one."""
    other = tmp_path / "other/net.py"
    other.parent.mkdir()
    for path in (other, tmp_path / "net.py"):
        path.write_text(HEAD.format(body="factor = 2"))
    load_function(f"{other}:net", "MODEL")
    installed = tmp_path / "site-packages"
    (installed / "one-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(model_fingerprint, "package_folders", lambda: (installed,))
    monkeypatch.setattr(named_model, "_fresh", lambda made_from: True)  # this session has modules of the suites
    time.sleep(0.1)
    monkeypatch.setattr(model_fingerprint, "BEGAN", time.time_ns())

    def is_found(**options: Any) -> bool:
        model_fingerprint._digest_of_packages.cache_clear()
        stages: list[str] = []
        text = f"{tmp_path}/net.py:net"
        lower_named(
            text, TosaSpec.parse("TOSA-1.0+INT"), options=LoweringOptions(text, **options),
            cache=Cache(tmp_path / "cache"), progress=stages.append,
        )  # fmt: skip
        return not stages

    assert [is_found(), is_found()] == [False, True]
    assert [is_found(scheme="a16w8"), is_found()] == [False, True]
    (installed / "one-1.0.dist-info").rename(installed / "one-1.1.dist-info")
    assert [is_found(), is_found()] == [False, True]
    model_fingerprint._digest_of_packages.cache_clear()


def test_a_folder_is_not_a_file_that_a_model_is_made_from(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder") as caught:
        depends_on(tmp_path)
    assert caught.value.hint == "name the files in it"


def test_the_command_that_was_started_is_no_part_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment often lies in the project's folder, and a model may import by a computed name."""
    command = tmp_path / "bin/ethos-hil"
    command.parent.mkdir()
    command.touch()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(command), raising=False)
    assert command in loaded_files(), "a user's own script is"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert command not in loaded_files()


def test_files_are_watched_in_a_process_that_has_not_asked_for_pythons_folders_yet() -> None:
    code = "from ethos_hil.lowering.made_from.file_watch import WATCH; WATCH.begin(); open('/dev/null')"
    subprocess.run([sys.executable, "-c", code], check=True)
