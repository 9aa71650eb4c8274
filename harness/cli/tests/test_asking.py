"""Commands and functions have the options of the question: a new field is one edit, and a record asks again exactly."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

import ethos_hil
from ethos_hil.base.asking import PROFILE, RUN, Asking, again
from ethos_hil.base.options import OPTIONS
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.cli.asking import asks
from ethos_hil.harness.testing import stub


def asked_by(line: str) -> Question:
    """The question of a command's line, read by the command's own parser."""
    _, command, *rest = shlex.split(line)
    asking: Asking = {"run": RUN, "profile": PROFILE}[command]
    questions: list[Question] = []

    @asks(asking)
    def keep(question: Question) -> None:
        questions.append(question)

    other = typer.Typer()
    other.command()(keep)
    typer.main.get_command(other).main(rest, standalone_mode=False)
    return questions[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("calibration.npz", "vela.ini", "inputs.npz", "expected.npz", "arm_executor_runner"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "model"])
@pytest.mark.usefixtures("here")
def test_a_record_asks_its_question_again(name: str) -> None:
    values: Mapping[str, Any] = {name: OPTIONS[name].example, "profile": name in ("profile", "found_by", "events")}
    question = Question("net.py:net", **values)
    question.check()
    virtual = TargetInfo("virtual", "virtual", "")
    record = Record(Verdict.VERIFIED, model="net.py:net", npu="", target=virtual, question=question.for_record())
    line = again(Record.from_json(json.loads(record.dumps())).asked)
    assert asked_by(line).digest == question.digest
    if name == "inputs":  # what the files say is compared: it is another question where one is another
        Path("inputs.npz").write_text("another")
        assert asked_by(line).digest != question.digest


def test_a_new_option_is_one_edit(tmp_path: Path, recorded: Recorded) -> None:
    """With one field more: options of all commands about a model, keywords, JSON, digest, again, keys of artifacts."""
    script = """
import importlib.util, inspect, json, sys
import ethos_hil
spec = importlib.util.find_spec("ethos_hil.base.options")
source = open(spec.origin).read()
mark = "    as_upstream: bool = option("
assert source.count(mark) == 1
added = '    pad_to: int | None = option(None, help="Pad to this number.", kind=int, least=1, example=8)\\n'
source = source.replace(mark, added + mark)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(source, spec.origin, "exec"), vars(module))
from ethos_hil.base.question import Question  # of the module with the new option

import typer
from ethos_hil.harness.cli.main import COMMANDS, command
from ethos_hil.base.asking import again
commands = {name: command(name) for name in COMMANDS}
there = [name for name, command in commands.items() if any("--pad-to" in each.opts for each in command.params)]
asking = ("evaluate", "lower", "preflight", "profile", "run", "Question")
functions = [name for name in asking if "pad_to" in inspect.signature(getattr(ethos_hil, name)).parameters]
question = Question("net.py:net", pad_to=8)
kept = Question.from_json(json.loads(json.dumps(question.to_json())))
try:
    Question("net.py:net", pad_to=0).check()
except Exception as error:
    wrong = str(error)
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.upstream.toolchain import toolchain_for
toolchains = [toolchain_for(EthosU.parse("ethos-u55-128"), question.but(pad_to=pad)) for pad in (None, 8, 9)]
keys = len({toolchain.key for toolchain in toolchains}) == len({toolchain.wishes for toolchain in toolchains}) == 3
print(json.dumps({
    "commands": sorted(there), "functions": sorted(functions), "kept": kept == question, "again": again(kept),
    "another digest": question.digest != question.but(pad_to=9).digest, "wrong": wrong,
    "explained": "pad_to: Pad to this number." in ethos_hil.run.__doc__,
    "reaches the code that lowers": [toolchain.options.pad_to for toolchain in toolchains],
    "no older artifact is taken for it": keys,
}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    recorded.check(json.loads(done.stdout))


def test_a_keyword_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="run\\(\\) got an unexpected keyword argument 'nup'"):
        ethos_hil.run("net.py:net", nup="ethos-u55-128")  # type: ignore[call-arg]


def test_type_checkers_and_editors_know_the_keywords() -> None:
    """The file is made again after a field of the question is added: python -m ethos_hil.harness.testing.stub."""
    current, expected = (sorted(map(ast.dump, ast.parse(text).body)) for text in (stub.FILE.read_text(), stub.stub()))
    assert current == expected
