"""Groups of a profile's rows, in which nothing is lost or counts twice, and the rules that modelled cycles come from;
and text of unknown origin in tables: it is shown as it is, and has no effect.
"""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ethos_hil.base.console import console
from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.record import JOB, Accuracy, Check, Divergence, Metric, Op, Output, Record, RunnerInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.profile_view import By, RuleFacts, Sort, groups
from ethos_hil.results.tests import profiled
from ethos_hil.results.text.profile import profile, rule_lines
from ethos_hil.results.text.record import checks_table, summary


def op(number: int, module: str, cycles: int | None, source: str = "net.py:3", name: str = "Conv2D") -> Op:
    return Op(f"npu{number:05d}", name, "CONV2D", (), module, source, cycles, "modelled", method="prefix", spread=1)


OPS = (
    Op(JOB, JOB, "", (), "", "", 7, "modelled", method="prefix"),
    op(0, "stem.0", 100),
    op(1, "body.0.left", 30, "net.py:9"),
    op(2, "body.0.right", 50, "net.py:9", "Add"),
    op(3, "body.1", 20),
    op(4, "", 5, ""),
    op(5, "stem.1", None),
)
TOTAL = 212


@pytest.mark.parametrize("by", list(By))
def test_no_cycle_is_lost_or_counted_twice(by: By) -> None:
    outer = [group for group in groups(OPS, by, Sort.CYCLES, 3) if group.depth == 0]
    assert sum(group.cycles for group in outer) == TOTAL
    assert sorted(row.id for group in outer for row in group.ops) == sorted(row.id for row in OPS)


SHOWN = {
    "rows": (By.OP, 25, 120, OPS),
    "two rows": (By.OP, 2, 120, OPS),
    "modules": (By.MODULE, 25, 120, OPS),
    "a module": (By.MODULE, 1, 120, OPS),
    "lines": (By.LINE, 25, 120, OPS),
    "narrow": (By.MODULE, 25, 40, OPS),
    "merged": (By.OP, 25, 80, (Op("npu00009", "Add", "ADD", (), "", "", None, "fvp", merged_with="npu00010"),)),
}
"""What rows are, how many, in how many columns, and the operations."""


@pytest.mark.parametrize("what", SHOWN)
def test_a_profile_has_its_groups_and_in_the_last_row_what_is_not_shown(what: str, recorded: Recorded) -> None:
    by, top, width, ops = SHOWN[what]
    target = TargetInfo("virtual", "virtual", "corstone-300")
    record = Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=target, ops=ops)
    text = printed(record, by, top, width)
    assert max(map(len, text.splitlines())) <= width
    recorded.check(text)


@pytest.mark.parametrize("by", By)
def test_a_profile_with_costs_and_a_timeline_has_them(by: By, recorded: Recorded) -> None:
    recorded.check(printed(profiled.record(), by, 25, 160))


def printed(record: Record, by: By, top: int, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(profile(record, by=by, sort=Sort.CYCLES, depth=3, top=top))
    return file.getvalue()


def test_a_damaged_record_whose_tensors_outlive_its_rows_is_shown() -> None:
    assert "at its peak" in printed(profiled.large(30, 10), By.MEMORY, 5, 200)


RULED_OPS = tuple(Op(f"npu{at}", "Conv2D", "", (), "", "", 1, "modelled") for at in range(3))
COSTS = {"npu0": OpCost(modelled=60, rule="conv"), "npu1": OpCost(modelled=10, rule="dma"),
         "npu2": OpCost(modelled=30, rule="conv")}  # fmt: skip
RULED = Record(Verdict.VERIFIED, model="net", npu="ethos-u55-128",
                target=TargetInfo("virtual", "virtual", "corstone-300"), ops=RULED_OPS,
                profile=InferenceProfile(costs=COSTS))  # fmt: skip
RULES = {"conv": RuleFacts("a convolution", "a fit", "12 operations", 0.02, 0.1)}


OF_RULES = {
    "modelled": RULED,
    "counted": replace(RULED, ops=tuple(replace(op, provenance="fvp") for op in RULED_OPS)),
    "no rules": replace(
        RULED, profile=InferenceProfile(costs={row: replace(of, rule="") for row, of in COSTS.items()})
    ),
    "no profile": replace(RULED, profile=None),
}


def test_each_rule_has_its_share_and_what_it_is_worth_and_what_has_none_says_nothing(recorded: Recorded) -> None:
    lines = (f"{what}: {[line.plain for line in rule_lines(of, RULES)]}" for what, of in OF_RULES.items())
    recorded.check("\n".join(lines))


# Text of unknown origin.


BAD = "a[bold].py[/red] :smile: <b>&\x1b[2J\x07\u202e\x9b\udcff"
AS_TEXT = r"a[bold].py[/red] :smile: <b>&\x1b[2J\x07\u202e\x9b\udcff"


def hostile() -> Record:
    op = Op(BAD, BAD, BAD, (BAD,), BAD, BAD + ":4", 7, BAD, (BAD + ":4", BAD + ":5"))
    return Record(
        verdict=Verdict.FAILED, model=BAD, npu=BAD, target=TargetInfo(BAD, BAD + "k", BAD + "s"),
        failure=Failure(FailureKind.MISMATCH, BAD, BAD), divergence=Divergence("npu-op", BAD),
        outputs=(Output(BAD, (1,), BAD, BAD, 1, 1, 0.5, BAD),),
        accuracy=(Accuracy(BAD, BAD, 1.0, 1.0, 0.5, (0,), 1.0, 0.5),), metrics=(Metric(BAD, 1.0, BAD, BAD),),
        ops=(op,), versions={"fvp": BAD}, notes=(BAD,), memory_mode=BAD, runner=RunnerInfo(BAD, BAD),
    )  # fmt: skip


def on(terminal: Console, what: object) -> str:
    terminal.print(what)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


@pytest.mark.parametrize(
    "terminal",
    [
        console(io.StringIO()),
        Console(file=io.StringIO(), width=2000),  # a user's own, with rich's defaults
        Console(file=io.StringIO(), width=2000, force_terminal=True, color_system=None),
    ],
)
def test_nothing_of_a_record_has_an_effect(terminal: Console) -> None:
    terminal.width = 4000
    text = on(terminal, summary(hostile()))
    for sign in ("\x1b[2J", "\x07", "\u202e", "\x9b", "\udcff", "😄"):
        assert sign not in text
    # model, npu, and kind, name and SoC of the target; all rows of facts; all cells of the operation
    assert text.count(AS_TEXT) >= 25, text


def test_a_check_of_a_preflight_is_plain() -> None:
    text = on(Console(file=io.StringIO(), width=2000), checks_table((Check(BAD, BAD, BAD, "fail", BAD),)))
    assert text.count(AS_TEXT) == 4
    assert "\x1b" not in text
