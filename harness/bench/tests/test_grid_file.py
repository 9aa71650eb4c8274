"""Grids as files: what is read, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.bench import grid_file
from ethos_hil.harness.bench.case import LONG, SHORT, BenchGrid, BenchInput, BenchStep
from ethos_hil.harness.bench.grid_file import default_grid, read_grid

HEAD = "schema_version = 1\n"
CASE = '[[case]]\nname = "add_8"\nsteps = [{call = "add"}]\ninputs = [[1, 8], [1, 8]]\n'


def grid(folder: Path, text: str) -> BenchGrid:
    file = folder / "mine.toml"
    file.write_text(HEAD + text)
    return read_grid(file)


def test_what_a_file_does_not_say_has_a_default(tmp_path: Path) -> None:
    result = grid(tmp_path, CASE)
    assert (result.name, result.npus, result.memory_modes, result.system_configs) == ("mine", EthosU.names(), (), ())
    (case,) = result.cases
    assert (case.name, case.group, case.scheme, case.tags, case.booted) == ("add_8", "add", "a8w8", (LONG,), False)
    assert case.steps == (BenchStep(call="add"),)
    assert case.inputs == (BenchInput((1, 8)),) * 2
    assert case.source == f"{tmp_path}/mine.toml:3"


def test_all_of_it_is_read(tmp_path: Path) -> None:
    result = grid(
        tmp_path,
        """
name = "edge"
npus = ["Ethos-U55-128", "ethos-u85-256", "ethos-u55-128"]
memory_modes = ["sram_only", "all"]
system_configs = ["Ethos_U85_SYS_DRAM_High"]
[[case]]
name = "stem"
group = "first"
steps = [
  {layer = "Conv2d", args = [3, 8, [3, 5]], options = {padding = [1, 2]}},
  {layer = "ReLU6"},
]
inputs = [{shape = [1, 3, 8, 8], low = 0, high = 9.5, channels_last = true}]
scheme = "a16w8"
tags = ["short", "camera"]
[[case]]
name = "net"
model = "nets/net.py:net"
[[case]]
name = "digits"
model = "suites.models.digits:digits"
""",
    )
    assert (result.name, result.npus) == ("edge", ("ethos-u55-128", "ethos-u85-256"))
    assert (result.memory_modes, result.system_configs) == (("Sram_Only", "all"), ("Ethos_U85_SYS_DRAM_High",))
    stem, net, digits = result.cases
    assert (stem.group, stem.scheme, stem.tags, stem.booted) == ("first", "a16w8", (SHORT, "camera"), True)
    assert list(map(str, stem.steps)) == ["Conv2d(3, 8, (3, 5), padding=(1, 2))", "ReLU6()"]
    assert stem.inputs == (BenchInput((1, 3, 8, 8), "float32", 0, 9.5, True),)
    assert (net.group, net.model, net.source) == ("model", f"{tmp_path}/nets/net.py:net", f"{tmp_path}/mine.toml:18")
    assert digits.model == "suites.models.digits:digits"


def test_systems_and_modes_are_those_of_a_configuration_file(tmp_path: Path) -> None:
    ini = tmp_path / "vela.ini"
    ini.write_text("[System_Config.Mine]\n[Memory_Mode.Ours]\n")
    (tmp_path / "mine.toml").write_text(f'{HEAD}memory_modes = ["Ours"]\nsystem_configs = ["Mine"]\n{CASE}')
    result = read_grid(tmp_path / "mine.toml", ini)
    assert (result.memory_modes, result.system_configs) == (("Ours",), ("Mine",))
    (tmp_path / "mine.toml").write_text(f'{HEAD}system_configs = ["Ethos_U85_SYS_DRAM_High"]\n{CASE}')
    with pytest.raises(
        UsageError, match=r"mine.toml:2: system_configs: 'Ethos_U85_SYS_DRAM_High' is not a system of .*ini"
    ):
        read_grid(tmp_path / "mine.toml", ini)


STEP = 'steps = [{layer = "ReLU"}]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.toml:1: the grid has no cases"),
        ("case = []\n", "mine.toml:1: the grid has no cases"),
        ("[[case]]\n", "mine.toml:2: case[1]: 'name' is a required property"),
        (CASE + CASE, "mine.toml:7: a second case is called 'add_8' ("),
        ('[[case]]\nname = "x"\ninputs = [[1]]\n', "mine.toml:3: case x has neither steps nor a model"),
        (f'[[case]]\nname = "x"\n{STEP}', "mine.toml:3: case x has no inputs"),
        (f'[[case]]\nname = "x"\n{STEP}model = "a:b"\n', "mine.toml:4: case x has a model and steps"),
        ('[[case]]\nname = "x"\nmodel = "a:b"\ninputs = [[1]]\n', "mine.toml:5: case x has a model and inputs"),
        (CASE + 'tag = ["short"]\n', "mine.toml:6: case[1].tag is not known: did you mean tags?"),
        (CASE + 'tags = ["short", "long"]\n', "mine.toml:6: case add_8 is tagged short and long"),
        (CASE + 'scheme = "a8w4"\n', "mine.toml:6: case[1].scheme: 'a8w4' is not one of ['a8w8', 'a16w8']"),
        (CASE + 'name = "add_8"\n', "mine.toml is not TOML: Cannot overwrite a value (at line 6, "),
        ('npu = ["ethos-u55-128"]\n' + CASE, "mine.toml:2: npu is not known: did you mean npus?"),
        ('npus = ["ethos-u55-127"]\n' + CASE, "mine.toml:2: npus: 'ethos-u55-127' is not an Ethos-U configuration"),
        ('memory_modes = ["Sram"]\n' + CASE, "mine.toml:2: memory_modes: 'Sram' is not a memory mode of Vela"),
        ('system_configs = ["U85"]\n' + CASE, "mine.toml:2: system_configs: 'U85' is not a system of Arm/vela.ini"),
        ("npus = []\n" + CASE, "mine.toml:2: npus: [] should be non-empty"),
        ('[[case]]\nname = "../x"\nmodel = "a:b"\n', "mine.toml:3: case[1].name: '../x' does not match"),
        ('[[case]]\nname = "x"\nsteps = [{}]\ninputs = [[1]]\n', "case x has a step with neither a layer nor a call"),
        (CASE.replace("call", 'layer = "ReLU", call'), "mine.toml:4: case add_8 has a step with a layer and a call"),
        (CASE.replace('"add"', '"add", args = [2]'), "mine.toml:4: case add_8 has args for add"),
        (CASE.replace("call", "function"), "case[1].steps[1].function is not known: there are args, call, layer"),
        (CASE.replace('call = "add"', 'layer = "a.b"'), "case[1].steps[1].layer: 'a.b' does not match"),
        (CASE.replace("[1, 8]]", "{shape = [8], low = 2}]"), "case add_8 has an input with values from 2 to 1"),
        (CASE.replace("[1, 8]]", "{shape = [8], low = nan}]"), "case add_8 has an input with values from nan to 1"),
        (CASE.replace("[1, 8]]", "{shape = [8], channels_last = true}]"), "an input of 1 dimensions that is channels_"),
        (CASE.replace("[1, 8]]", "[8, 65536, 65536]]"), "case add_8 has an input of 34,359,738,368 numbers"),
        (CASE.replace("[1, 8]]", "[0, 8]]"), "mine.toml:5: case[1].inputs[2]"),
        (CASE.replace("[1, 8]]", '{shape = [8], dtype = "int4"}]'), "mine.toml:5: case[1].inputs[2]"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        grid(tmp_path, text)
    assert message in f"{error.value.message} ({error.value.hint})"
    assert "\n" not in error.value.message
    assert error.value.exit_status == 2


def test_the_default_grid_has_a_short_case_of_every_group() -> None:
    default = default_grid()
    assert default.name == "default"
    assert default.npus == EthosU.names()
    assert 100 <= len(default.cases) <= 120
    short = [case for case in default.cases if case.booted]
    assert 20 <= len(short) <= 30
    groups = {case.group for case in default.cases}
    assert {case.group for case in short} == groups
    assert groups >= {"stem", "conv1x1", "conv3x3", "dw", "linear", "matmul", "softmax", "elementwise", "layout"}
    assert groups >= {"pool", "activation", "norm", "resize", "upconv", "reduce", "int16"}
    assert {case.scheme for case in default.cases if case.group == "int16"} == {"a16w8"}
    assert default.cases[0].source == "default_grid.toml:12"


def test_the_document_has_a_grid_that_is_one_and_every_key(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/bench-grids.md").read_text()
    (tmp_path / "mine.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    assert [case.group for case in read_grid(tmp_path / "mine.toml").cases] == ["stem", "gate", "model"]
    schema = json.loads(Path(grid_file.__file__).with_name(grid_file.SCHEMA).read_text())
    tables = (schema, schema["properties"]["case"]["items"], schema["$defs"]["step"], schema["$defs"]["input"])
    keys = {key for table in tables for key in table["properties"]}
    assert [key for key in sorted(keys) if f"`{key}`" not in text and f"`[[{key}]]`" not in text] == []
