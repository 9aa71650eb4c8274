"""The shards of a campaign, put together: each once, all of one plan and one state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.campaign.run_folder import EARLIER, NIGHTLY, STATE, CampaignState, CampaignSubject, read_state
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.verdict.tool_state import difference

_SHOWN = 20
"""How many missing shards are named."""


@dataclass
class Conducted:
    """What happened beside the records.

    Attributes:
        down: targets that cannot be used, and why.
        problems: sessions that did not run whole, and why, by the part's name.
    """

    down: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardsTogether:
    """The shards that were found.

    Attributes:
        folders: their run folders, by number.
        shards: which they are.
        conducted: what happened beside their records.
        problems: what is missing, doubled or different, as sentences.
    """

    folders: tuple[Path, ...]
    shards: tuple[Shard, ...]
    conducted: Conducted
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the run that they are together: that of the first, without its number."""
        return self.folders[0].name.rpartition("-")[0]


def put_together(places: Sequence[Path], subject: CampaignSubject, *, everywhere: str = "") -> ShardsTogether:
    """Return the shards in some folders.

    Args:
        places: run folders, or folders that have them, however deep.
        subject: what they must be of, whatever tools made them.
        everywhere: how the names of parts begin that every shard runs.

    Raises:
        UsageError: a folder has none, cannot be read, or is of another plan.
    """
    # A folder may be below two of the places.
    folders_found = {folder.resolve(): folder for place in reversed(places) for folder in _folders(place, subject)}
    states = [(folder, read_state(folder)) for folder in folders_found.values()]
    for folder, state in states:
        if state.command != subject.command or state.plan != subject.plan:
            file = "the file that its nightly was given" if subject.command == NIGHTLY else "the options of its shards"
            raise UsageError(f"{folder} is of another plan", hint=f"give {file}")
        if not state.shard:
            raise UsageError(f"{folder} is a whole {subject.noun}, and no shard", hint="there is nothing to merge")
    states.sort(key=lambda item: (_shard(*item).number, item[0].name))
    shards = tuple(_shard(*item) for item in states)
    together = Conducted()
    for _, state in states:
        conducted = state.conducted
        together.down.update(conducted.get("down", {}))
        for name, what in conducted.get("problems", {}).items():
            together.problems[f"shard {state.shard}, {name}"] = what
    folders = tuple(folder for folder, _ in states)
    with readable(hint="a run folder has to stay as it was written"):
        twice = _twice(folders, everywhere)
    return ShardsTogether(folders, shards, together, (*_problems(states, shards), *twice))


def _shard(folder: Path, state: CampaignState) -> Shard:
    try:
        return Shard.parse(state.shard)
    except UsageError as error:
        raise UsageError(f"{folder / STATE}: {state.shard!r} is not a shard", hint="leave its folder out") from error


def _folders(place: Path, subject: CampaignSubject) -> list[Path]:
    with readable(place, hint="give the shards' folders"):
        place.stat()
        folders = {path.parent for name in (STATE, EARLIER[0]) for path in place.rglob(name)}
    if not folders:
        hint = f"give the folder that {'--into' if subject.command == NIGHTLY else '--runs'} named, of every shard"
        raise UsageError(f"{place} has no shard of a {subject.noun}", hint=hint)
    return sorted(folders)


def _problems(states: Sequence[tuple[Path, CampaignState]], shards: Sequence[Shard]) -> list[str]:
    problems = []
    counts = {shard.count for shard in shards}
    if len(counts) > 1:
        problems.append(f"the shards are of different numbers: {', '.join(map(str, shards))}")
    there = Counter(shard.number for shard in shards)
    for number in (number for number, times in there.items() if times > 1):
        mine = [folder for (folder, _), shard in zip(states, shards, strict=True) if shard.number == number]
        problems.append(f"shard {number}/{max(counts)} is there {len(mine)} times: {', '.join(map(str, mine))}")
    missing = [number for number in range(1, max(counts) + 1) if number not in there]
    problems += [f"shard {number}/{max(counts)} is missing" for number in missing[:_SHOWN]]
    problems += [f"{len(missing) - _SHOWN:,} more shards are missing"] if len(missing) > _SHOWN else []
    problems += [f"shard {state.shard} is not finished: {folder}" for folder, state in states if not state.finished]
    first = states[0][1]
    for _, state in states[1:]:
        different = difference(first.made_with, state.made_with)
        if different:
            problems.append(f"shards {first.shard} and {state.shard} are of different states: {different}")
    return problems


def _twice(folders: Sequence[Path], everywhere: str) -> list[str]:
    """Return a sentence for a question that two shards asked: each is one's own, but for those of all."""
    seen: dict[tuple[str, str, str], Path] = {}
    for folder in folders:
        for record in records_of(folder):
            other = seen.setdefault((record.within.part, record.name, record.within.planned), folder)
            if other != folder and not (everywhere and record.within.part.startswith(everywhere)):
                return [f"{record.name} ran in {other} and in {folder}"]
    return []
