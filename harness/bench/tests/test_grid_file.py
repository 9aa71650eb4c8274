"""Grids as files, and the points that they have: what is read, chosen and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded, shown
from ethos_hil.harness.bench import grid_file
from ethos_hil.harness.bench.grid_file import default_grid, read_grid
from ethos_hil.harness.bench.order import BenchOrder, select
from ethos_hil.harness.bench.points import (
    ALL,
    SHORT,
    BenchCase,
    BenchGrid,
    BenchInput,
    BenchStep,
    PointSettings,
    points_of,
    refusal_of,
)
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


RELU = BenchCase("relu_8", "relu", (BenchStep("ReLU"),), (BenchInput((1, 8)),))
GRID = BenchGrid("test", (RELU, replace(RELU, name="relu_9", tags=(SHORT,))))
SETTINGS = PointSettings("test")


TWO = replace(GRID, cases=GRID.cases[:1], npus=("ethos-u55-128", "ethos-u65-256"))
GRIDS = {
    "one mode of each kind": replace(GRID, cases=GRID.cases[:1]),
    "points with one TOSA stand together": replace(
        GRID, npus=("ethos-u85-128", "ethos-u55-32", "ethos-u85-256", "ethos-u65-256")
    ),
    "modes that are asked for are refused where they cannot be": replace(
        TWO, memory_modes=("Dedicated_Sram", "Shared_Sram")
    ),
    "all modes": replace(TWO, memory_modes=(ALL,)),
    "a system of Arm's is for its family": replace(
        TWO, memory_modes=("Sram_Only",), system_configs=("Ethos_U55_Deep_Embedded", "Ethos_U65_Embedded")
    ),
    "a system of one family": replace(
        TWO, memory_modes=("Sram_Only",), system_configs=("Ethos_U55_Deep_Embedded",)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GRIDS)
def test_a_grid_has_these_points(what: str, recorded: Recorded) -> None:
    points = points_of(GRIDS[what], ("virtual",), SETTINGS)
    assert len(points) == len({point.key for point in points})
    lines = []
    for point in points:
        refused = refusal_of(point, SETTINGS)
        place = f"{point.case.name} {point.npu} {point.memory_mode} {point.system_config}"
        lines.append(f"{place}: {refused}" if refused else place)
    recorded.check("\n".join(lines))


def test_what_is_booted() -> None:
    short, long = GRID.cases[1], GRID.cases[0]
    assert [SETTINGS.boots(case, virtual=True) for case in (short, long)] == [True, False]
    assert SETTINGS.boots(long, virtual=False)
    assert [replace(SETTINGS, boot=boot).boots(short, virtual=True) for boot in (True, False)] == [True, False]


def test_a_models_scheme_and_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no such file: net\.py"):
        BenchOrder(models=("net.py:net",)).plan()
    Path("net.py").touch()
    (case,) = {point.case for point in BenchOrder(models=("net.py:net",), scheme="a16w8").plan().points}
    assert (case.name, case.model, case.scheme, case.booted) == ("net.py:net", "net.py:net", "a16w8", False)


def test_a_board_that_is_given_as_a_file_has_the_key_of_its_records(tmp_path: Path) -> None:
    """Else a run's points are not found again, and --resume makes them all again."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\n[link]\nurl = "/dev/ttyACM0"\n')
    npu = replace(GRID, npus=("ethos-u55-128",), memory_modes=("Shared_Sram",))
    point, _ = points_of(npu, (f"board:{path}",), SETTINGS)
    assert (point.target, point.key[-1]) == (f"board:{path}", "board:mine")


def test_two_targets_that_records_cannot_tell_apart(tmp_path: Path) -> None:
    files = [tmp_path / folder / "mine.toml" for folder in "ab"]
    for path in files:
        path.parent.mkdir()
        path.write_text('extends = "mps3-an547"\n')
    with pytest.raises(UsageError, match="are both called board:mine in records"):
        points_of(GRID, [f"board:{path}" for path in files], SETTINGS)


MINE = BenchGrid("mine", (
    BenchCase("conv3x3_8x8x64", "conv3x3", (), (), tags=("short",)), BenchCase("conv3x3_56x56x64", "conv3x3", (), ()),
    BenchCase("add_14x14x96", "elementwise", (), (), tags=("short", "camera")),
), ("ethos-u55-128",))  # fmt: skip
CHOICES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "all": ((), ()),
    "a tag": (("short",), ()),
    "two tags": (("long", "camera"), ()),
    "a group": ((), ("conv3x3",)),
    "a pattern": ((), ("*x64",)),
    "a group and a pattern": ((), ("elementwise", "conv3x3_8*")),
    "a tag and a pattern": (("short",), ("conv*",)),
    "no such tag": (("shor",), ()),
    "no such name": ((), ("conv3x3", "conv3x4_8x8x64")),
    "no such pattern": ((), ("*zzz*",)),
    "nothing with both": (("camera",), ("conv*",)),
}


def test_cases_are_chosen_by_tag_name_and_group(recorded: Recorded) -> None:
    """What takes none is refused."""
    lines = []
    for what, choice in CHOICES.items():
        if what.startswith("no"):
            lines.append(f"{what}: {refusal(select, MINE, *choice)}")
        else:
            grid = select(MINE, *choice)
            assert (grid.name, grid.npus) == (MINE.name, MINE.npus)
            lines.append(" ".join([f"{what}:", *(case.name for case in grid.cases)]))
    recorded.check("\n".join(lines))
