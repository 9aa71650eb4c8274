"""A scan with real versions, which finds by itself what users of executorch#21459 found by hand; which version changed
what, in which words and in which table; and what `--over` takes.

Environments are kept in the tests' cache below build/, so only the first session installs them.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ethos_hil.base.environment import VELA
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Op
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.scan.candidates import Over
from ethos_hil.harness.scan.compiled_version import CompiledVersion, Right, ScanAnswer, answers, map_rows, measure
from ethos_hil.harness.scan.report import PointScan, ScanReport, document, findings, text
from ethos_hil.harness.scan.scan import ScanOrder, scan
from ethos_hil.harness.scan.tests.small_wheels import wheel
from ethos_hil.harness.scan.versions import WantedVersions
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.conditions.process import silent
from ethos_hil.lowering.formats.vela_blob import pack
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.comparison import RowChange

MODELS = """
import torch

class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(784, 512)
        self.second = torch.nn.Linear(512, 256)
        self.last = torch.nn.Linear(256, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x)

def mlp():
    torch.manual_seed(0)
    return Mlp().eval(), (torch.randn(1, 784),)
"""
U85 = EthosU.parse("ethos-u85-128")
DIGITS = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")


@pytest.mark.slow
def test_it_names_the_vela_that_made_a_perceptron_faster_and_the_layers_that_are(tmp_path: Path) -> None:
    """pytorch/executorch#21459; 4.3 does not read this TOSA."""
    (tmp_path / "models.py").write_text(MODELS)
    wanted = Over.parse([f"{VELA}=4.3.0,5.0.0,5.1.0"])
    order = ScanOrder(Question(f"{tmp_path}/models.py:mlp"), wanted, ("ethos-u85-128",), ("Shared_Sram",))
    (point,) = scan(order, Silent()).points
    unreadable, old, new = point.versions
    assert (unreadable.version, unreadable.stream_sha256) == ("4.3.0", "")
    assert "Tosa version mismatch" in unreadable.reason
    assert (old.cycles, old.operations, old.transfers) == (520_400, 10, 5)
    assert (new.cycles, new.operations, new.transfers) == (182_602, 3, 0)
    assert old.tosa_sha256 == new.tosa_sha256, "the TOSA is frozen"
    assert old.answer is new.answer is ScanAnswer.EQUAL
    assert old.packages[VELA] == "5.0.0"
    (change,) = point.changes
    assert (change.before, change.version) == ("5.0.0", "5.1.0")
    rows = {row.module: row for row in change.rows}
    assert {name: row.source for name, row in rows.items()} == {
        "first": "models.py:12", "second": "models.py:13", "last": "models.py:14"
    }  # fmt: skip
    assert rows["first"].change is rows["second"].change is RowChange.FUSED
    assert (sum(row.old for row in change.rows), sum(row.new for row in change.rows)) == (old.cycles, new.cycles)
    assert findings(point, VELA)[0].startswith(
        "ethos-u-vela 5.1.0 is the first at which the command stream changed: 520,400 -> 182,602 modelled cycles; "
        "10 -> 3 operations; 5 -> 0 DMA transfers"
    )


# --- What a version compiled, with the installed Vela. ---


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return lower(DIGITS, U85, memory_mode=MemoryMode("Shared_Sram"))


def test_rows_are_mapped_to_the_model_as_they_were_when_it_was_lowered(artifact: Artifact) -> None:
    """The frozen TOSA has no locations: they come from the rows that are known."""
    (delegate,) = artifact.delegates
    assert delegate.tosa is not None
    output = run_vela(delegate.tosa, [*artifact.vela_flags, *DEBUG_FLAGS])
    assert output.blob == delegate.vela, "it is the same program"
    rows = map_rows(output, delegate)
    assert len(rows) > 3
    assert [(row.id, row.module, row.source, row.tosa_op) for row in rows] == [
        (row.id, row.module, row.source, row.tosa_op) for row in delegate.npu_ops
    ]
    for entry, op in zip(rows, delegate.npu_ops, strict=True):
        assert set(op.aten_ops) <= set(entry.aten_ops)


def test_a_wrong_answer_is_a_failure_and_without_the_right_one_it_is_unknown(artifact: Artifact) -> None:
    setup, right = VelaSetup.default(U85, MemoryMode("Shared_Sram")), answers(artifact)
    known = measure("5.1.0", artifact.delegates, setup, right, packages={})
    assert (known.answer, known.cycles) == (ScanAnswer.EQUAL, sum(op.cycles or 0 for op in known.ops))
    unknown = measure("5.1.0", artifact.delegates, setup, Right({}, "no reference"), packages={})
    assert unknown == replace(known, answer=ScanAnswer.UNKNOWN, said="no reference"), "it is timed all the same"
    (delegate,) = artifact.delegates
    blob = delegate.blob
    scales = bytearray(blob.weights)
    scales[:64] = bytes(byte ^ 0x55 for byte in scales[:64])
    damaged = pack(blob.command_data, bytes(scales), blob.scratch_size, blob.inputs, blob.outputs)
    result = measure("5.1.0", [replace(delegate, vela=damaged)], setup, right, packages={})
    assert result.answer is ScanAnswer.WRONG
    assert "tosa_reference_model" in result.said or "cannot execute" in result.said


# Which version changed what, in which words and in which table; versions that go back, fail, or answer wrong.


def op(number: int, cycles: int, module: str = "a") -> Op:
    aten = ("aten.linear.default",)
    return Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, "net.py:3", cycles, "modelled", ("net.py:3",), 1)


OLD = CompiledVersion(
    "1.0.0", "", {}, "t", "s1", "w1", 3, 1, 900, 800, 40, 100, 64, 0, ScanAnswer.EQUAL, "", (op(0, 500), op(1, 400))
)
NEW = replace(OLD, version="1.1.0", stream_sha256="s2", operations=1, transfers=0, cycles=700, ops=(op(0, 700),))


BAD = "\x1b[2J[bold]bad"
BROKEN = CompiledVersion("1.0.5", "it crashed")
SAID = "3 of 10 elements of output 0 differ"
SCANS: dict[str, tuple[CompiledVersion, ...]] = {
    "another stream": (OLD, replace(OLD, version="1.0.5"), NEW, replace(NEW, version="1.2.0")),
    "a stream that goes back": (OLD, NEW, replace(OLD, version="1.2.0")),
    "another stream with the same cycles": (OLD, replace(OLD, version="1.1.0", stream_sha256="s2")),
    "weights alone": (OLD, replace(OLD, version="1.1.0", weights_sha256="w2")),
    "one without a program between two": (OLD, BROKEN, NEW),
    "none with a program": (BROKEN,),
    "one with a program": (OLD, BROKEN),
    "a wrong answer": (OLD, replace(OLD, version="1.1.0", answer=ScanAnswer.WRONG, said=SAID)),
    "foreign text": (OLD, replace(BROKEN, reason=BAD)),
}


@pytest.mark.parametrize("what", SCANS)
def test_a_scan_names_the_version_that_changed_something_with_its_numbers_and_rows(
    what: str, recorded: Recorded
) -> None:
    """What changed is marked; foreign text stays text."""
    point = PointScan("ethos-u85-128", "Sram_Only", "System", SCANS[what], (f"a note {BAD}",))
    report = ScanReport("net.py:net", VELA, (point,), "model")
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(text(report, top=3))
    shown = "\n".join(line.rstrip() for line in captured.get().splitlines())
    assert not {char for char in shown if not char.isprintable()} - {"\n"}
    recorded.check(shown)
    recorded.check(json.dumps(document(report)).replace("}, {", "},\n{"), "document")


# What `--over` takes: versions, ranges and lists, and one clear error for anything else.


RELEASED = ("5.2.0", "5.1.0", "5.0.0", "4.5.0", "4.4.1", "4.4.0", "4.10.0", "3.9")
"""In pip's order: the newest first, but for one that is newer than its text looks."""


def versions(text: str) -> tuple[str, ...]:
    return WantedVersions.parse(f"ethos-u-vela={text}").resolve(RELEASED)


RANGES = ("4.4..5.1", "4.4.0..5.0", "5.0..", "4.4..4.4", "4.4.0..4.4", "5.1.0..5.1.0", "5.1", "4.4", "5.1.0,4.4.1",
          "5.1.0, 4.4.0,5.1", "5.1..5.2,4.4.0", "3.0..4.0")  # fmt: skip


def test_the_newest_of_each_minor_version_and_what_is_named_in_full(recorded: Recorded) -> None:
    """Where all are named in full, no index is needed."""
    named = (WantedVersions.parse(f"ethos-u-vela={text}").named for text in RANGES)
    recorded.check("\n".join(f"{text}: {versions(text)}, named {of}" for text, of in zip(RANGES, named, strict=True)))


NO_VERSIONS = ("", "=", "=5", "=latest", "=5.1.0.what", "=..5.1", "=5.1...5.2", "=5.1.0,", "=5.2..4.4", "=4.4.1..4.4.0")
MEANINGLESS = ("numpy=1.0", *(f"ethos-u-vela{text}" for text in NO_VERSIONS))
NOT_RELEASED = ("5.0.7", "6.0", "5.3..6.0", "4.6..4.9", "4.4.2..5.0", "4.4..5.0.9")


def test_what_means_nothing_is_refused_before_an_index_is_asked_or_else_by_it(recorded: Recorded) -> None:
    recorded.check_refusals(MEANINGLESS, WantedVersions.parse)
    recorded.check_refusals(NOT_RELEASED, versions, name="not released")


# What else `--over` takes: wheels of a folder, and upstreams one by one.


def test_wheels_are_in_the_order_of_their_versions_and_two_builds_of_one_are_two(tmp_path: Path) -> None:
    for version in ("9.2.0.dev10", "9.2.0.dev9"):
        wheel(tmp_path, VELA, version)
    again = wheel(tmp_path, VELA, "9.2.0.dev9", more={"more.py": ""})
    again = again.rename(tmp_path / "ethos_u_vela-9.2.0.dev9-1-py3-none-any.whl")
    wheel(tmp_path, VELA, "9.2.0.dev9")
    os.utime(again, (0, 0))
    found = Over.parse([f"wheels={tmp_path}"]).resolve(silent)
    assert found.package == VELA
    older, newer, last = found.listed
    assert older.subject == (f"path={again}",)
    assert {older.version.partition(" ")[0], newer.version.partition(" ")[0]} == {"9.2.0.dev9"}
    assert older.version != newer.version
    assert older.more != newer.more
    assert last.version == "9.2.0.dev10"
    one = Over.parse([f"wheels={tmp_path}/*dev10*"])
    with pytest.raises(UsageError, match="one wheel is there"):
        one.resolve(silent)


def test_upstreams_keep_the_order_in_which_they_are_given() -> None:
    texts = ("executorch==1.5.0 ethos-u-vela==5.2.0", "here", "path=a folder/a.whl", "python=/opt/bin/python")
    found = Over.parse(texts).resolve(silent)
    assert [(it.version, it.subject) for it in found.listed] == [
        ("executorch 1.5.0, ethos-u-vela 5.2.0", ("executorch==1.5.0", "ethos-u-vela==5.2.0")),
        ("this environment", ()),
        ("a folder/a.whl", ("path=a folder/a.whl",)),
        ("/opt/bin/python", ("python=/opt/bin/python",)),
    ]
    assert not found.bisect
