"""Plug-ins of made-up distributions: metadata in a folder, as pip leaves it, and a module beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.plugins import PluginError, PluginGroup
from ethos_hil.base.testing.distribution import distribution
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.export.exporter import Exporter

GROUP = "ethos_hil.tests_of_plugins"
Install = Callable[..., None]
TOOLS = PluginGroup(GROUP, Exporter, "tool")
TOOL = """
from ethos_hil.results.export.exporter import Exporter
def Tool(name):
    return Exporter(name, "", "", None)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution with one module and its plug-ins: name=attribute."""

    def make(name: str, module: str, **plugins: str) -> None:
        lines = [f"{plugin.replace('_', '-')} = {name}_code:{value}" for plugin, value in plugins.items()]
        place = distribution(tmp_path / name, name, "\n".join([f"[{GROUP}]", *lines, ""]), **{f"{name}_code": module})
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(sys.modules, f"{name}_code", raising=False)

    return make


def test_plugins_of_several_distributions_are_found_by_name(install: Install) -> None:
    install("one", TOOL + 'A = Tool("hammer")\n', hammer="A")
    install("two", TOOL + 'B = Tool("long-saw")\n', long_saw="B")
    assert TOOLS.names() == ("hammer", "long-saw")
    assert TOOLS.get("long-saw").name == "long-saw"
    assert TOOLS.distributions("hammer") == ("one",)
    assert [(name, getattr(tool, "name", tool)) for name, tool in TOOLS.all()] == [
        (name, name) for name in TOOLS.names()
    ]


def test_nothing_is_imported_before_it_is_asked_for(install: Install, recorded: Recorded) -> None:
    install("one", "raise RuntimeError('imported')\n", hammer="A", saw="A")
    TOOLS.require("hammer")
    assert TOOLS.names() == ("hammer", "saw")
    assert "one_code" not in sys.modules
    recorded.check_refusals(["hammer", "hamer"], TOOLS.get)
    recorded.check_refusals(["hammer"], PluginGroup("ethos_hil.nobody", Exporter, "tool").get, name="a group of none")


def test_two_distributions_with_one_name_are_both_named(install: Install) -> None:
    install("one", TOOL + 'A = Tool("hammer")\n', hammer="A")
    install("two", TOOL + 'A = Tool("hammer")\n', hammer="A")
    with pytest.raises(PluginError, match=r"'hammer' is registered by (one and two|two and one)"):
        TOOLS.get("hammer")


def test_what_cannot_be_used_names_its_distribution_and_hides_no_other(install: Install, recorded: Recorded) -> None:
    modules = ("import absent_module", "import sys\nsys.exit(3)", TOOL, "A = 7", TOOL + 'A = Tool("saw")')
    for number, module in enumerate(modules):
        install(f"dist{number}", module, **{f"tool{number}": "A"})
    install("right", TOOL + 'B = Tool("saw")\n', saw="B")
    recorded.check_refusals([f"tool{number}" for number in range(len(modules))], TOOLS.get)
    (_, other), *errors = TOOLS.all()
    assert [type(error) for _, error in errors] == [PluginError] * len(modules)
    assert getattr(other, "name", other) == TOOLS.get("saw").name == "saw"
