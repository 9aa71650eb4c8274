"""Every patch fits what is installed; one that does not is left out with a warning, or is an error."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx import Graph, Node

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.bare.lower_bare import BARE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.tests.conftest import MODELS, U55
from ethos_hil.lowering.upstream.patches import patch as applying
from ethos_hil.lowering.upstream.patches.in_executorch import parts_in_order
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, Patch, apply, fingerprint, resolve
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
    lists = [f"functions that are {what}" for what in ("quantised", "tables", "delegated")]
    assert without == ["history", "tables first", *lists, "process of Vela"], "what is added, lists and a module"


def breaks(monkeypatch: pytest.MonkeyPatch, patch: Patch, how: str = "has changed") -> None:
    """Upstream has another function now, or none."""
    if how == "has changed":
        monkeypatch.setattr(resolve(patch.owner), patch.attribute, lambda *arguments: arguments)
    else:
        monkeypatch.delattr(resolve(patch.owner), patch.attribute)


@pytest.mark.parametrize("how", ["has changed", "does not exist"])
def test_what_only_saves_time_is_left_out_with_one_warning(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    breaks(monkeypatch, OVERRIDES, how)
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
    assert re.match(rf"patch 'overrides' was made for torch 2\.13\.0 .* {how}", str(warning.message))


@pytest.mark.parametrize(("broken", "how"), [(MATMUL, "has changed"), (TABLES_FIRST[0], "does not exist")])
def test_what_changes_results_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, broken: Patch, how: str
) -> None:
    others = [patch for patch in ORIGINS if patch is not broken]
    before = [getattr(resolve(patch.owner), patch.attribute) for patch in others]
    breaks(monkeypatch, broken, how)
    problem = rf"patch '{broken.name}' .* executorch 1\.4\.1 or 1\.5\.0 or 1\.5\.1 .* executorch 1\.5\.1: .*{how}"
    with pytest.raises(ToolError, match=problem) as raised, apply(others), apply([broken]):
        pass
    assert "install executorch 1.5.1" in str(raised.value.hint)
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


def test_with_patches_off_nothing_is_replaced_or_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for patch in (OVERRIDES, MATMUL):
        breaks(monkeypatch, patch)
    monkeypatch.setenv(VARIABLE, "off")
    before = [vars(resolve(patch.owner)).get(patch.attribute) for patch in TABLE]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply(TABLE):
            assert [vars(resolve(patch.owner)).get(patch.attribute) for patch in TABLE] == before


@pytest.mark.parametrize("target", [U55, EthosU.parse("ethos-u85-256"), TosaSpec.parse("TOSA-1.0+FP")], ids=str)
def test_a_model_is_lowered_bare_where_a_patch_that_changes_results_does_not_fit(
    target: EthosU | TosaSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never dead: the reference answers it as PyTorch does. Their keys differ."""
    full = lower(f"{MODELS}:add", target, cache=Cache(tmp_path / "full"))
    monkeypatch.setattr(applying, "_bare", [])
    breaks(monkeypatch, PARTS[0])
    plain = lower(f"{MODELS}:add", target, cache=Cache(tmp_path))
    (note,) = plain.notes
    assert note.startswith(f"{BARE}: patch 'parts of partitions' was made for executorch 1.4.1 or 1.5.0 ")
    assert (full.versions["ethos-hil-patches"], plain.versions["ethos-hil-patches"]) == ("on", "bare")
    assert (len(plain.delegates), len(plain.npu_ops)) == (1, len(full.npu_ops))
    assert plain.key != full.key
    (output,) = Reference(plain).run(plain.example_inputs).outputs
    np.testing.assert_allclose(output, plain.pytorch[0], atol=1e-6)
    np.testing.assert_array_equal(output, Reference(full).run(full.example_inputs).outputs[0])


@pytest.mark.parametrize(
    ("model", "options", "what"),
    [("methods", {}, "methods (encode, score"), ("add", {"leave": ("aten.add.Tensor",)}, "--leave"),
     ("add", {"whole": True}, "--whole"), ("counting", {}, "state (calls)")],
)  # fmt: skip
def test_what_needs_patches_is_refused_bare(
    model: str, options: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(applying, "_bare", ["a patch does not fit"])
    with pytest.raises(UsageError, match=re.escape(what)):
        lower(f"{MODELS}:{model}", U55, cache=Cache(tmp_path), **options)


BODY = "def sample(values, factor=2):\n    return [value * factor for value in values]\n"
TEXTS = {
    "as_it_is": BODY,
    "comments_docstring_and_layout": "def sample(\n    values,\n    factor=2,\n):\n\n    'It.'\n    # another\n"
    "    return [\n        value * factor for value in values\n    ]  # why\n",
    "a_default": BODY.replace("2", "3"),
    "a_decorator": "import functools\n@functools.cache\n" + BODY,
    "an_operator": BODY.replace("*", "+"),
}


def test_a_fingerprint_is_of_what_a_function_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    prints = [fingerprint(f"{name}.sample") for name in TEXTS]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_what_is_not_there_or_means_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, problem in (("math.sqrt", "cannot be read"), ("math.no_such", "does not exist")):
        with pytest.raises(applying.UpstreamDiffers, match=problem):
            fingerprint(name)
    gone = replace(MATMUL, owner="executorch.backends.arm._passes.no_such_pass.NoSuchPass")
    with pytest.raises(ToolError, match="NoSuchPass does not exist"), apply([gone]):
        pass
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(UsageError, match="ETHOS_HIL_PATCHES is '0'"):
        applying.patches_on()


def test_a_method_that_is_registered_for_good_is_not_changed_by_the_order_of_passes() -> None:
    """The lists of what others registered are copied, not added to."""
    manager: Any = resolve("executorch.backends.arm._passes.arm_pass_manager")
    passes: Any = resolve("executorch.backends.arm._passes")
    manager.register_pass_insertions_before(passes.DecomposeStridedSliceCopyPass, [passes.RemoveNoopPass()])
    try:
        registered = manager._registered_pass_insertions
        before = {key: list(method.before_passes) for key, method in registered.items()}
        with apply(TABLES_FIRST, None):
            assert len(manager._registered_pass_insertions[passes.DecomposeStridedSliceCopyPass].before_passes) == 2
        assert manager._registered_pass_insertions is registered
        assert {key: list(method.before_passes) for key, method in registered.items()} == before
    finally:
        manager.clear_registered_pass_insertions()


# --- Partitions, and the parts of one that is split, come in one order, whatever sets of Python make of them.


def test_parts_are_upstreams_in_the_order_of_the_graph() -> None:
    (patch,) = PARTS
    upstream = resolve(patch.target)
    graph = Graph()
    source = graph.placeholder("x")
    wanted: list[set[Node]] = []  # pairs of operators, those that come first were made last
    for _ in range(20):
        with graph.inserting_after(source):
            first = graph.call_function(torch.relu, (source,))
        with graph.inserting_after(first):
            wanted.insert(0, {first, graph.call_function(torch.neg, (first,))})
    nodes = set().union(*wanted)
    assert parts_in_order(upstream)(nodes) == wanted
    own = upstream(nodes)
    assert sorted(map(wanted.index, own)) == list(range(20))
    assert own != wanted, "upstream has an order of its own now: the patch can go"
