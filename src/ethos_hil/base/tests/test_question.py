"""A question survives JSON whole, has one digest wherever its files lie, and says what is wrong with a value."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.asking import PROFILE, RUN, TESTING, again, words
from ethos_hil.base.options import DEFAULTS, GROUPS, OPTIONS
from ethos_hil.base.plain_text import portable
from ethos_hil.base.question import Question
from ethos_hil.base.testing.recorded import Recorded

OTHER = {name: how.example for name, how in OPTIONS.items() if name != "model"}


def ask(**values: Any) -> Question:
    return Question("net.py:net", **values)


def test_the_four_groups_are_the_question() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert sorted([*names, "digests"]) == sorted(item.name for item in fields(Question))
    assert len(set(names)) == len(names) == len(OPTIONS)


@pytest.mark.parametrize("name", OTHER)
def test_each_field_has_an_example_that_is_kept_and_moves_the_digest(name: str) -> None:
    question = ask(**{name: OTHER[name]})
    assert question.given == (name,)
    copy = Question.from_json(json.loads(json.dumps(question.to_json())))
    assert getattr(copy, name) == OTHER[name]
    assert copy.digest == question.digest != ask().digest
    assert Question.from_json(ask(**OTHER).to_json()) == ask(**OTHER).for_record()


def test_a_file_counts_by_its_content_and_folders_of_a_machine_do_not(tmp_path: Path) -> None:
    for folder, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.npz").write_bytes(content)
    first, same, other = (ask(inputs=tmp_path / folder / "x.npz").digest for folder in "abc")
    assert first == same != other
    copy = Question.from_json(ask(inputs=tmp_path / "a/x.npz").to_json())
    (tmp_path / "a/x.npz").unlink()
    assert copy.digest == first
    assert copy.but(inputs=None).digest == ask().digest
    assert copy.but(repeat=3).digests == copy.digests
    assert Question("/ci/build/net.py:net").digest == ask().digest
    assert portable("board:/etc/boards/mine.toml") == "board:mine.toml"


def test_values_in_memory_are_kept_by_digest_and_no_command_asks_them() -> None:
    question, same, other = (ask(inputs=((np.full(3, value, np.float32),),)) for value in (0, 0, 1))
    assert question.digest == same.digest != other.digest
    copy = Question.from_json(question.to_json())
    assert (copy.inputs, copy.in_memory, copy.digest) == (None, ("inputs",), question.digest)
    assert again(copy) == ""


WRONG: list[dict[str, Any]] = [
    {"scheme": "a8w4"}, {"optimise": "fast"}, {"events": ("npu_actve",)}, {"repeat": 0}, {"timeout": 0},
    {"atol": float("nan")}, {"min_sqnr": float("inf")}, {"arena_cache_size": -1}, {"npu": "ethos-u56"},
    {"optimise": "Size", "arena_cache_size": 1}, {"allow_cpu_only": True, "max_cpu_ops": 1},
]  # fmt: skip


def test_what_is_wrong_names_field_value_and_remedy(recorded: Recorded) -> None:
    recorded.check_refusals(WRONG, lambda values: ask(**values).check())


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("value", [{}, [1], 7.5, True, None, "text"])
def test_json_of_another_type_is_refused(name: str, value: object) -> None:
    document = json.loads(json.dumps(ask().to_json()))
    group = next(group for group, names in GROUPS.items() if name in names)
    document[group][name] = value
    try:
        setting = getattr(Question.from_json(document), name)
    except TypeError:
        return
    kind = OPTIONS[name].kind
    assert setting == DEFAULTS[name] or isinstance(setting, float if kind is float else kind)


def test_a_command_names_what_is_not_its_default_and_a_test_is_asked_again_by_pytest(recorded: Recorded) -> None:
    name = "suites/ops/test_add.py::test_add_same"
    recorded.check("\n".join(map(again, (
        ask(), ask(scheme="a16w8", leave=("aten.add",), timeout=60.0),
        ask(profile=True, found_by="prefix", timeout=600.0, method="encode"),
        Question(f"{name}_U55_BI", target="corstone-300", strict=True), Question(f"{name}_BI", npu=""),
    ))))  # fmt: skip
    assert words(ask(), RUN) == ("net.py:net", "--npu", "ethos-u55-128")
    assert PROFILE.default("timeout") == 600
    assert TESTING.fields == ("npu", "memory_mode", "subject", "target", "strict", "strict_board")
