"""The shards of a night, put together: what is missing, doubled, unfinished or different is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.campaign.merging import put_together
from ethos_hil.harness.campaign.run_folder import NIGHTLY, STATE, CampaignSubject, Start, opened
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.nightly import merge_nightly
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.tests.plans import record, write, write_shard
from ethos_hil.harness.terminal.progress import Silent

TOOLS = {"commit": "a"}


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, '[[suite]]\npaths = ["test_plus.py"]\n')))


def shard(
    folder: Path, plan: NightlyPlan, text: str, *names: str, finished: bool = True, tools: dict[str, str] = TOOLS
) -> Path:
    subject = CampaignSubject(NIGHTLY, plan.digest, tools, "nightly.toml", text)
    with opened(folder / "shards", subject, Start.FRESH) as night:
        for name in names:
            night.run_folder.append(record(name), part="suite 1: virtual")
        if finished:
            night.finish({"down": {}, "problems": {"suite 1: virtual": "was cut"} if "cut" in names else {}})
    return night.folder


def test_whole_shards_are_one_run(tmp_path: Path, plan: NightlyPlan) -> None:
    second = shard(tmp_path, plan, "2/2", "b")
    first = shard(tmp_path, plan, "1/2", "a", "cut")
    run = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {}))
    assert run.folders == (first, second)
    assert run.problems == ()
    assert run.name == first.name.removesuffix("-1of2")
    assert run.conducted.problems == {"shard 1/2, suite 1: virtual": "was cut"}


def test_what_is_missing_doubled_unfinished_or_other_is_named(tmp_path: Path, plan: NightlyPlan) -> None:
    first = shard(tmp_path, plan, "1/3", "a")
    again = shard(tmp_path, plan, "1/3", finished=False, tools={"commit": "b"})
    shard(tmp_path, plan, "3/3", "a")
    problems = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {})).problems
    assert problems[0].startswith("shard 1/3 is there 2 times: ")
    assert str(first) in problems[0]
    assert problems[1] == "shard 2/3 is missing"
    assert problems[2] == f"shard 1/3 is not finished: {again}"
    assert " are of different states: commit was " in problems[3] + problems[4]
    assert problems[-1].startswith("a ran in ")


def test_shards_of_two_divisions_are_no_night(tmp_path: Path, plan: NightlyPlan) -> None:
    shard(tmp_path, plan, "1/2")
    shard(tmp_path, plan, "2/3")
    problems = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {})).problems
    assert problems[:2] == ("the shards are of different numbers: 1/2, 2/3", "shard 3/3 is missing")


def test_records_of_another_run_are_red(tmp_path: Path, plan: NightlyPlan) -> None:
    """A file of last week's night in the place of one that was lost answers nothing of tonight."""
    config = read_config(write(tmp_path, '[[suite]]\npaths = ["test_plus.py"]\n'))
    folder = write_shard(tmp_path / "shards", plan, Shard(1, 1), record("a"))
    assert merge_nightly(config, plan, [folder], Silent()).status == 0
    (path,) = folder.glob("records-*.jsonl")
    path.write_text(path.read_text().replace(folder.name, "20261101T000000Z-aaaaaa-1of1"))
    outcome = merge_nightly(config, plan, [folder], Silent())
    assert outcome.red == ("there are records of another run: 20261101T000000Z-aaaaaa-1of1",)
    assert not outcome.account.whole
    (folder / "records-7.jsonl").mkdir()
    with pytest.raises(UsageError, match=f"{folder}/records-7.jsonl cannot be read: it is a folder, not a file"):
        merge_nightly(config, plan, [folder], Silent())


def test_what_is_no_shard_of_the_plan_is_refused(tmp_path: Path, plan: NightlyPlan) -> None:
    folder = shard(tmp_path, plan, "1/2")
    state = json.loads((folder / STATE).read_text())
    for change, message in (
        ({"plan": "other"}, "is of another plan"),
        ({"shard": ""}, "is a whole night, and no shard"),
        ({"shard": "9/2"}, f"{STATE}: '9/2' is not a shard"),
    ):
        (folder / STATE).write_text(json.dumps({**state, **change}))
        with pytest.raises(UsageError, match=message):
            put_together([folder], CampaignSubject(NIGHTLY, plan.digest, {}))
