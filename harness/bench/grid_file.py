"""Grids of benchmarks as TOML files. `grid.schema.json` beside this file describes them; docs/bench-grids.md explains
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ethos_hil.base.checked_toml import CheckedToml, read_checked
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.bench.points import ALL, LONG, SHORT, BenchCase, BenchGrid, BenchInput, BenchStep
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode

SCHEMA = "grid.schema.json"
DEFAULT = "default_grid.toml"
SEE = "docs/bench-grids.md has examples"
_MOST = 1 << 26
"""Numbers in an input tensor."""
_FILES = (".py", ".pt2", ".pte", ".bpte")


def read_grid(path: Path, vela_ini: Path | None = None) -> BenchGrid:
    """Read a user's grid.

    Args:
        path: the file.
        vela_ini: a configuration file whose memory modes and systems it names, in place of Arm/vela.ini.

    Raises:
        UsageError: it cannot be used; the message names the file and the line.
    """
    return _grid(path, str(path), None if vela_ini is None else VelaIni.read(vela_ini))


def default_grid() -> BenchGrid:
    """Return the grid that comes with this package: about 100 cases of common shapes."""
    return _grid(Path(__file__).with_name(DEFAULT), DEFAULT)


def _grid(path: Path, shown: str, ini: VelaIni | None = None) -> BenchGrid:
    file = read_checked(path, resources.files(__package__).joinpath(SCHEMA), SEE, shown)
    entries: Sequence[Mapping[str, Any]] = file.data.get("case", ())
    if not entries:
        raise UsageError(f"{shown}:1: the grid has no cases", hint=f"add a [[case]]; {SEE}")
    cases = tuple(_Entry(file, number, entry, path.parent).case for number, entry in enumerate(entries))
    first: dict[str, str] = {}
    for case in cases:
        if case.name in first:
            raise UsageError(
                f"{case.source}: a second case is called {case.name!r}", hint=f"the first is at {first[case.name]}"
            )
        first[case.name] = case.source
    return BenchGrid(
        file.data.get("name", DEFAULT.split("_")[0] if shown == DEFAULT else path.stem),
        cases,
        _names_of(file, "npus", EthosU.parse) or EthosU.names(),
        _names_of(file, "memory_modes", _memory_mode if ini is None else str),  # one's own are not looked up
        _names_of(file, "system_configs", lambda name: _system(name, ini or VelaIni.shipped())),
    )


def _names_of(file: CheckedToml, key: str, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return the names that the file has for a key. Raises UsageError, with the line, where `parse` does."""
    try:
        return tuple(dict.fromkeys(str(parse(name)) for name in file.data.get(key, ())))
    except UsageError as error:
        raise UsageError(f"{file.line_of(key)}: {key}: {error.message}", hint=error.hint) from None


def _memory_mode(name: str) -> str:
    return name if name == ALL else MemoryMode.parse(name).name


def _system(name: str, ini: VelaIni) -> str:
    if name not in ini.systems:
        suggestion = did_you_mean(name, ini.systems)
        raise UsageError(f"{name!r} is not a system of {ini.name}", hint=f"{suggestion}valid: {', '.join(ini.systems)}")
    return name


@dataclass(frozen=True)
class _Entry:
    """A `[[case]]`, the one with that number in the file; `folder` is the file's."""

    file: CheckedToml
    number: int
    data: Mapping[str, Any]
    folder: Path

    @property
    def case(self) -> BenchCase:
        """What it declares. Raises UsageError."""
        name, model, tags = self.data["name"], self.data.get("model", ""), tuple(self.data.get("tags", ()))
        if model:
            for key in ("steps", "inputs"):
                if key in self.data:
                    raise self._wrong(key, f"has a model and {key}", "a model brings its own: leave out one of them")
        elif "steps" not in self.data:
            raise self._wrong("name", "has neither steps nor a model", SEE)
        elif "inputs" not in self.data:
            raise self._wrong("name", "has no inputs", "add inputs = [[1, 16, 8, 8]], with a shape for each")
        if {SHORT, LONG} <= set(tags):
            hint = f"{SHORT} cases are booted and verified, {LONG} ones compiled and timed: leave out one of the tags"
            raise self._wrong("tags", f"is tagged {SHORT} and {LONG}", hint)
        return BenchCase(
            name,
            self.data.get("group", "model" if model else name.split("_")[0]),
            tuple(map(self._step, self.data.get("steps", ()))),
            tuple(map(self._input, self.data.get("inputs", ()))),
            self.data.get("scheme", "a8w8"),
            tags if {SHORT, LONG} & set(tags) else (LONG, *tags),
            self._model(model),
            self.file.line_of("case", self.number, "name"),
        )

    def _step(self, data: Mapping[str, Any]) -> BenchStep:
        if ("layer" in data) == ("call" in data):
            both = "a layer and a call" if "layer" in data else "neither a layer nor a call"
            raise self._wrong("steps", f"has a step with {both}", 'write {layer = "ReLU"} or {call = "mul"}')
        if "call" in data and "args" in data:
            raise self._wrong("steps", f"has args for {data['call']}", "functions take options, arguments by name")
        return BenchStep(**_tuples(data))

    def _input(self, data: Any) -> BenchInput:
        tensor = BenchInput(tuple(data)) if isinstance(data, list) else BenchInput(**_tuples(data))
        if not tensor.low < tensor.high:
            what = f"has an input with values from {tensor.low:g} to {tensor.high:g}"
            raise self._wrong("inputs", what, "low, by default -1, has to be below high, by default 1")
        if math.prod(tensor.shape) > _MOST:
            raise self._wrong(
                "inputs", f"has an input of {math.prod(tensor.shape):,} numbers", f"give at most {_MOST:,}"
            )
        if tensor.channels_last and len(tensor.shape) != 4:
            what = f"has an input of {len(tensor.shape)} dimensions that is channels_last"
            raise self._wrong("inputs", what, "only an image is, with the shape [N, C, H, W]")
        return tensor

    def _model(self, text: str) -> str:
        """Return a MODEL; where it is in a file, that starts from the grid's folder."""
        place = Path(text.rpartition(":")[0] or text).expanduser()
        in_file = place.suffix in _FILES or "/" in text
        return str(self.folder / text) if in_file and not place.is_absolute() else text

    def _wrong(self, key: str, what: str, hint: str) -> UsageError:
        return UsageError(f"{self.file.line_of('case', self.number, key)}: case {self.data['name']} {what}", hint=hint)


def _tuples(value: Any) -> Any:
    """Return a value of the file with tuples in place of lists."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {name: _tuples(entry) for name, entry in value.items()} if isinstance(value, dict) else value
