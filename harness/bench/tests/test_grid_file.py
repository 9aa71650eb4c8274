"""Grids as files: what is read, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded, shown
from ethos_hil.harness.bench import grid_file
from ethos_hil.harness.bench.grid_file import default_grid, read_grid
from ethos_hil.harness.bench.points import BenchGrid
from ethos_hil.harness.testing.refusals import refusal

HEAD = "schema_version = 1\n"
CASE = '[[case]]\nname = "add_8"\nsteps = [{call = "add"}]\ninputs = [[1, 8], [1, 8]]\n'


def grid(folder: Path, text: str) -> BenchGrid:
    file = folder / "mine.toml"
    file.write_text(HEAD + text)
    return read_grid(file)


EDGE = """
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
"""


@pytest.mark.parametrize("text", [CASE, EDGE], ids=["defaults", "everything"])
def test_a_grid_is_read_with_defaults_for_what_it_does_not_say(tmp_path: Path, text: str, recorded: Recorded) -> None:
    recorded.check(shown(grid(tmp_path, text)).replace(str(tmp_path), "/here"))


def test_systems_and_modes_are_those_of_a_configuration_file(tmp_path: Path) -> None:
    ini = tmp_path / "vela.ini"
    ini.write_text("[System_Config.Mine]\n[Memory_Mode.Ours]\n")
    (tmp_path / "mine.toml").write_text(f'{HEAD}memory_modes = ["Ours"]\nsystem_configs = ["Mine"]\n{CASE}')
    result = read_grid(tmp_path / "mine.toml", ini)
    assert (result.memory_modes, result.system_configs) == (("Ours",), ("Mine",))
    (tmp_path / "mine.toml").write_text(f'{HEAD}system_configs = ["Ethos_U85_SYS_DRAM_High"]\n{CASE}')
    with pytest.raises(UsageError, match=r"toml:2: system_configs: 'Ethos_U85_SYS_DRAM_High' is not a system of .*ini"):
        read_grid(tmp_path / "mine.toml", ini)


STEP = 'steps = [{layer = "ReLU"}]\n'


WRONG = (
    "",
    "case = []\n",
    "[[case]]\n",
    CASE + CASE,
    '[[case]]\nname = "x"\ninputs = [[1]]\n',
    f'[[case]]\nname = "x"\n{STEP}',
    f'[[case]]\nname = "x"\n{STEP}model = "a:b"\n',
    '[[case]]\nname = "x"\nmodel = "a:b"\ninputs = [[1]]\n',
    CASE + 'tag = ["short"]\n',
    CASE + 'tags = ["short", "long"]\n',
    CASE + 'scheme = "a8w4"\n',
    CASE + 'name = "add_8"\n',
    'npu = ["ethos-u55-128"]\n' + CASE,
    'npus = ["ethos-u55-127"]\n' + CASE,
    'memory_modes = ["Sram"]\n' + CASE,
    'system_configs = ["U85"]\n' + CASE,
    "npus = []\n" + CASE,
    '[[case]]\nname = "../x"\nmodel = "a:b"\n',
    '[[case]]\nname = "x"\nsteps = [{}]\ninputs = [[1]]\n',
    CASE.replace("call", 'layer = "ReLU", call'),
    CASE.replace('"add"', '"add", args = [2]'),
    CASE.replace("call", "function"),
    CASE.replace('call = "add"', 'layer = "a.b"'),
    CASE.replace("[1, 8]]", "{shape = [8], low = 2}]"),
    CASE.replace("[1, 8]]", "{shape = [8], low = nan}]"),
    CASE.replace("[1, 8]]", "{shape = [8], channels_last = true}]"),
    CASE.replace("[1, 8]]", "[8, 65536, 65536]]"),
    CASE.replace("[1, 8]]", "[0, 8]]"),
    CASE.replace("[1, 8]]", '{shape = [8], dtype = "int4"}]'),
)


def test_what_cannot_be_used_is_one_line_with_its_place(tmp_path: Path, recorded: Recorded) -> None:
    recorded.check("\n".join(refusal(grid, tmp_path, text, folder=tmp_path) for text in WRONG))


def test_the_default_grid_has_a_short_case_of_every_group(recorded: Recorded) -> None:
    default = default_grid()
    assert (default.name, default.npus, default.cases[0].source) == ("default", EthosU.names(), "default_grid.toml:12")
    lines = []
    for group in dict.fromkeys(case.group for case in default.cases):
        cases = [case for case in default.cases if case.group == group]
        short = [case.name for case in cases if case.booted]
        assert short
        lines.append(f"{group}: {len(cases)} of {sorted({case.scheme for case in cases})}, short {', '.join(short)}")
    recorded.check("\n".join(lines))


def test_the_document_has_a_grid_that_is_one_and_every_key(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/bench-grids.md").read_text()
    (tmp_path / "mine.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    assert [case.group for case in read_grid(tmp_path / "mine.toml").cases] == ["stem", "gate", "model"]
    schema = json.loads(Path(grid_file.__file__).with_name(grid_file.SCHEMA).read_text())
    tables = (schema, schema["properties"]["case"]["items"], schema["$defs"]["step"], schema["$defs"]["input"])
    keys = {key for table in tables for key in table["properties"]}
    assert [key for key in sorted(keys) if f"`{key}`" not in text and f"`[[{key}]]`" not in text] == []
