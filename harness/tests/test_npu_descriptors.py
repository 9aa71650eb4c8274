"""What distinguishes one NPU from another is data in ethos_hil/base/npu: nothing else asks for a name."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu import ethos_u
from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.profile.options import event_sets
from ethos_hil.harness.socs.soc import NpuChoice
from ethos_hil.harness.tests.test_repository import NAMES, ROOT
from ethos_hil.harness.virtual.device import Device, JobResult, NpuJob
from ethos_hil.lowering.vela.compiler import flags
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.results.bench.budget import model_error
from ethos_hil.suites.declare.profile import PROFILES

DESCRIPTORS = "ethos_hil.base.npu."
DECLARATIONS = ("ethos_hil.suites.lab.", "ethos_hil.suites.models.", "ethos_hil.suites.ops.")
"""Tests, and what they expect by profile."""
TESTING = ("ethos_hil.lowering.testing.", "ethos_hil.harness.testing.")
WORDS = {*EthosU.names(), *(f"ethos-{family}" for family in FAMILIES)}
WORDS |= {word for family in FAMILIES for word in (family.name, family.name.upper(), family.suffix, family.title)}
METHODS = ("startswith", "endswith", "removeprefix", "partition", "index", "find", "get")


def names_an_npu(node: ast.expr | None) -> bool:
    """Whether an expression is the name of an NPU or of a family, or the family itself."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(names_an_npu, node.elts))
    if isinstance(node, ast.Constant):
        return node.value in WORDS
    return isinstance(node, ast.Name) and node.id in WORDS


def choices_by_name(source: str, *, lists: bool = True) -> Iterator[int]:
    """Yield the lines that compare with an NPU or family, look one up, or list several."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare():
                names = [node.left, *node.comparators]
            case ast.Dict():
                names = [key for key in node.keys if key is not None]
            case ast.Subscript(slice=name) | ast.MatchValue(value=name):
                names = [name]
            case ast.Call(func=ast.Attribute(attr=method)) if method in METHODS:
                names = node.args
            case ast.Tuple() | ast.List() | ast.Set() if lists and sum(map(names_an_npu, node.elts)) > 1:
                names = node.elts
            case _:
                continue
        if any(map(names_an_npu, names)):
            yield node.lineno


def test_nothing_chooses_by_the_name_of_an_npu() -> None:
    """A family that a defect of the compiler is of is data, so the repairs may list them."""
    wrong = [
        f"{path}:{line}"
        for name, path in NAMES.items()
        if not name.startswith((DESCRIPTORS, *DECLARATIONS, *TESTING))
        for line in choices_by_name(path.read_text(), lists=".repairs." not in name)
    ]
    assert wrong == []


def test_a_choice_by_name_is_found() -> None:
    for line in (
        'if npu.family.name == "u85": pass',
        "slow = npu.family != U55",
        'lanes = {"ethos-u55-32": 8}',
        'lanes = LANES["ethos-u55-32"]',
        'if "u85" in name: pass',
        'if npu.name.startswith("ethos-u65"): pass',
        'for family in ("u55", "u65"): pass',
        "if npu.family in (U55, U65): pass",
        'match family:\n    case "u85": pass',
    ):
        assert list(choices_by_name(line)), line
    for line in ("if one.family == other.family: pass", 'npu = EthosU.parse("ethos-u55-128")', 'size = CODES["u16"]'):
        assert not list(choices_by_name(line)), line


def test_the_firmware_chooses_by_product_in_the_files_of_generations_alone() -> None:
    sources = [path for end in ("cc", "h") for path in (ROOT / "firmware").rglob(f"*.{end}")]
    asking = {path.name for path in sources if re.search(r"\bPRODUCT_U\d", path.read_text())}
    assert asking == {"families.h", "u55.cc", "u85.cc"}


def test_families_are_in_the_order_of_their_products_and_sizes_in_theirs() -> None:
    assert [family.product for family in FAMILIES] == list(range(len(FAMILIES)))  # firmware/npu/families.h
    for family in FAMILIES:
        assert [size.macs for size in family.sizes] == sorted(size.macs for size in family.sizes)
        assert [EthosU.from_config_word(size.config_word).size for size in family.sizes] == list(family.sizes)
        assert family.system.name in family.clocks


def test_names_of_npus_are_read_and_an_invalid_one_lists_them(recorded: Recorded) -> None:
    assert [str(EthosU.parse(name)) for name in EthosU.names()] == list(EthosU.names())
    assert EthosU.parse(" Ethos-U55-128 ") == EthosU.parse("ethos-u55-128")
    names = ["ethos-u55-512", "u55", "", "ethos-u55-12 8", "ethos-u65-128", "cortex-m55"]
    recorded.check_refusals(names, EthosU.parse)


def test_config_words_name_the_npu() -> None:
    # 0x1807 and 0x20000118 are in streams that Vela made for these two.
    assert EthosU.from_config_word(0x1807) == EthosU.parse("ethos-u55-128")
    assert EthosU.from_config_word(0x20000118) == EthosU.parse("ethos-u85-256")
    matching = [name for name in EthosU.names() if EthosU.parse(name).matches(0x1807)]
    assert matching == ["ethos-u55-128"]
    with pytest.raises(UsageError, match="0x70000007"):
        EthosU.from_config_word(0x70000007)
    npu = EthosU.parse("ethos-u85-256")
    assert pickle.loads(pickle.dumps(npu)).size is npu.size
    assert len(pickle.dumps(npu)) < 200, "it is pickled by its name"


STOP = 0xFFFF0000


def copy(length: int) -> bytes:
    """A stream that copies bytes from region 0 to region 1."""
    words = [0x130, 0x131 | 1 << 16, 0x4030, 0, 0x4031, 0, 0x4032, length, 0x010, STOP]
    return struct.pack(f"<{len(words)}I", *words)


class NoEngine:
    """Never asked to run."""

    def run(self, job: NpuJob) -> JobResult | None:
        raise AssertionError(job)


@pytest.mark.parametrize(("family", "macs"), [(FAMILIES[0], 512), (FAMILIES[2], 4096)], ids=["u55-512", "u85-4096"])
def test_another_size_is_data_alone(family: Family, macs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is parsed, compiled for, modelled, shown by a virtual board and tested like those that there are."""
    name, last = f"ethos-{family}-{macs}", family.sizes[-1]
    with pytest.raises(UsageError):
        EthosU.parse(name)
    size = dataclasses.replace(last, macs=macs, config_word=last.config_word & ~0xF | macs.bit_length() - 1, lanes=64)
    larger = dataclasses.replace(family, sizes=(*family.sizes, size))
    monkeypatch.setattr(ethos_u, "FAMILIES", tuple(larger if member == family else member for member in FAMILIES))

    npu = EthosU.parse(name)
    assert npu in EthosU.all()
    assert EthosU.from_config_word(size.config_word) == npu
    assert pickle.loads(pickle.dumps(npu)) == npu
    # Compiled for.
    mode = MemoryMode.default(npu)
    assert flags(npu, mode)[:1] == (f"--accelerator-config={name}",)
    assert f"--system-config={family.system.name}" in flags(npu, mode)
    assert mode in MemoryMode.one_of_each_kind(npu)
    # Modelled.
    execution = Npu(npu)
    program = execution.decode(copy(64))
    regions = {0: np.arange(64, dtype=np.uint8), 1: np.zeros(64, np.uint8)}
    assert execution.run(program, regions).cycles == program.timing().cycles > 64 // family.system.beat
    assert (regions[0] == regions[1]).all()
    assert model_error(name, "modelled") == model_error(f"ethos-{family}-{family.usual_macs}", "modelled")
    # On a board, and in tests.
    assert Device(npu, NoEngine()).read(0x28) == size.config_word
    assert len(event_sets(range(9), npu)[0]) == family.event_counters
    assert NpuChoice(larger, (macs,), macs).names == (name,)
    (profile,) = [profile for profile in PROFILES if profile.name == family.suffix]
    assert dataclasses.replace(profile, target=npu).npu == npu
