"""Every patch fits what is installed; one that does not is left out with a warning, or is an error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import MODELS, U55
from ethos_hil.lowering.upstream.patches import patch as applying
from ethos_hil.lowering.upstream.patches.in_executorch import parts_in_order
from ethos_hil.lowering.upstream.patches.patch import (
    VARIABLE,
    Patch,
    UpstreamDiffers,
    apply,
    fingerprint,
    patches_on,
    resolve,
)
from ethos_hil.lowering.upstream.patches.table import ORIGINS, PARTS, SPEED, TABLE, TABLES_FIRST

OVERRIDES = next(patch for patch in SPEED if patch.name == "overrides")
MATMUL = next(patch for patch in ORIGINS if "matmul" in patch.name)


@pytest.fixture(autouse=True)
def _not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_warned", set())


@pytest.mark.parametrize("patch", TABLE, ids=lambda patch: patch.name)
def test_every_patch_fits_what_is_installed(patch: Patch) -> None:
    """Where one does not, the error has the name of what changed, and its fingerprint."""
    patch.find()
    assert patch.installed.partition("+")[0] in patch.versions
    assert patch.why
    assert patch.gain


def test_what_is_replaced_is_covered_if_it_has_source() -> None:
    without = [patch.name for patch in TABLE if patch.target not in dict(patch.fingerprints)]
    assert without == ["history", "tables first", "process of Vela"], "what is added, a dictionary and a module"


def changed(monkeypatch: pytest.MonkeyPatch, patch: Patch) -> None:
    """Upstream has another function now."""
    monkeypatch.setattr(resolve(patch.owner), patch.attribute, lambda *arguments: arguments)


def absent(monkeypatch: pytest.MonkeyPatch, patch: Patch) -> None:
    """Upstream has no such function now."""
    monkeypatch.delattr(resolve(patch.owner), patch.attribute)


Break = Callable[[pytest.MonkeyPatch, Patch], None]


@pytest.mark.parametrize(("breaks", "word"), [(changed, "has changed"), (absent, "does not exist")])
def test_what_only_saves_time_is_left_out_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, breaks: Break, word: str
) -> None:
    breaks(monkeypatch, OVERRIDES)
    owner = resolve(OVERRIDES.owner)
    before = vars(owner).get(OVERRIDES.attribute)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with apply(SPEED):
                assert vars(owner).get(OVERRIDES.attribute) is before
                assert applying._inside == {patch for patch in SPEED if patch is not OVERRIDES}
    (warning,) = caught
    assert warning.category is RuntimeWarning
    assert re.match(rf"patch 'overrides' was made for torch 2\.13\.0 .* {word}", str(warning.message))


@pytest.mark.parametrize(
    ("broken", "breaks", "word"), [(MATMUL, changed, "has changed"), (TABLES_FIRST[0], absent, "does not exist")]
)
def test_what_changes_results_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, broken: Patch, breaks: Break, word: str
) -> None:
    others = [patch for patch in ORIGINS if patch is not broken]
    before = [getattr(resolve(patch.owner), patch.attribute) for patch in others]
    breaks(monkeypatch, broken)
    problem = rf"patch '{broken.name}' .* executorch 1\.4\.1: .*{word}"
    with pytest.raises(ToolError, match=problem) as raised, apply(others), apply([broken]):
        pass
    assert "install executorch 1.4.1" in str(raised.value.hint)
    assert f"{VARIABLE}=off" in str(raised.value.hint)
    assert [getattr(resolve(patch.owner), patch.attribute) for patch in others] == before


@pytest.mark.parametrize(
    ("owner", "name", "warning"),
    [
        ("torch.fx.GraphModule", "_recompile_submodules", "'generation' .*_recompile_submodules has changed"),
        ("torch.fx.traceback.NodeSource", "__deepcopy__", "'history' .* exists already"),
    ],
)
def test_what_a_patch_relies_on_or_adds_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, owner: str, name: str, warning: str
) -> None:
    monkeypatch.setattr(resolve(owner), name, lambda *_: [], raising=False)
    with pytest.warns(RuntimeWarning, match=warning), apply(SPEED):
        pass


def test_a_module_that_is_gone_is_seen() -> None:
    gone = replace(MATMUL, owner="executorch.backends.arm._passes.no_such_pass.NoSuchPass")
    with pytest.raises(ToolError, match="NoSuchPass does not exist"), apply([gone]):
        pass


def test_with_patches_off_nothing_is_replaced_or_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for patch in (OVERRIDES, MATMUL):
        changed(monkeypatch, patch)
    monkeypatch.setenv(VARIABLE, "off")
    before = [vars(resolve(patch.owner)).get(patch.attribute) for patch in TABLE]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply(TABLE):
            assert [vars(resolve(patch.owner)).get(patch.attribute) for patch in TABLE] == before


def test_a_value_that_means_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(UsageError, match="ETHOS_HIL_PATCHES is '0'"):
        patches_on()


def test_a_lowering_with_a_patch_that_does_not_fit_fails_with_that_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed(monkeypatch, MATMUL)
    with pytest.raises(ToolError, match=f"patch '{MATMUL.name}'"):
        lower(f"{MODELS}:add", U55, cache=Cache(tmp_path))
    monkeypatch.undo()
    assert lower(f"{MODELS}:add", U55, cache=Cache(tmp_path)).npu_ops


def sample(values: list[int], factor: int = 2) -> list[int]:
    """What it does."""
    return [value * factor for value in values]  # why


HEAD = "def sample(values: list[int], factor: int = 2) -> list[int]:\n"
BODY = "    return [value * factor for value in values]\n"
OTHER_LAYOUT = (
    "def sample(\n    values: list[int],\n    factor: int = 2,\n) -> list[int]:\n\n"
    "    'Something else.'\n    # another\n    return [\n        value * factor for value in values\n    ]\n"
)


def test_a_fingerprint_is_of_what_a_function_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "as_it_is": HEAD + BODY,
        "comments_docstring_and_layout": OTHER_LAYOUT,
        "a_default": HEAD.replace("2", "3") + BODY,
        "a_decorator": "import functools\n@functools.cache\n" + HEAD + BODY,
        "an_operator": HEAD + BODY.replace("*", "+"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    prints = [fingerprint(f"{name}.sample") for name in texts]
    assert prints[0] == prints[1] == fingerprint(f"{__name__}.sample")
    assert len(set(prints)) == 4


@pytest.mark.parametrize(("name", "problem"), [("math.sqrt", "cannot be read"), ("math.no_such", "does not exist")])
def test_what_has_no_source_fits_nothing(name: str, problem: str) -> None:
    with pytest.raises(UpstreamDiffers, match=problem):
        fingerprint(name)


def test_a_method_that_is_registered_for_good_is_not_changed_by_the_order_of_passes() -> None:
    """The lists of what others registered are copied, not added to."""
    manager: Any = resolve("executorch.backends.arm._passes.arm_pass_manager")
    passes: Any = resolve("executorch.backends.arm._passes")
    manager.register_pass_insertions_before(passes.DecomposeAvgPool2dPass, [passes.RemoveNoopPass()])
    try:
        registered = manager._registered_pass_insertions
        before = {key: list(method.before_passes) for key, method in registered.items()}
        with apply(TABLES_FIRST, None):
            assert len(manager._registered_pass_insertions[passes.DecomposeAvgPool2dPass].before_passes) == 2
        assert manager._registered_pass_insertions is registered
        assert {key: list(method.before_passes) for key, method in registered.items()} == before
    finally:
        manager.clear_registered_pass_insertions()


# --- Partitions, and the parts of one that is split, come in one order, whatever sets of Python make of them.


def chains(count: int) -> list[tuple[Node, Node]]:
    """Pairs of operators of one graph, in its order. Those that come first were made last."""
    graph = Graph()
    source = graph.placeholder("x")
    pairs: list[tuple[Node, Node]] = []
    for _ in range(count):
        with graph.inserting_after(source):
            first = graph.call_function(torch.relu, (source,))
        with graph.inserting_after(first):
            pairs.insert(0, (first, graph.call_function(torch.neg, (first,))))
    return pairs


def test_parts_are_upstreams_in_the_order_of_the_graph() -> None:
    (patch,) = PARTS
    upstream = resolve(patch.target)
    pairs = chains(20)
    nodes = {node for pair in pairs for node in pair}
    wanted = [set(pair) for pair in pairs]
    assert parts_in_order(upstream)(nodes) == wanted
    own = upstream(nodes)
    assert sorted(map(wanted.index, own)) == list(range(20))
    assert own != wanted, "upstream has an order of its own now: the patch can go"
