"""What each patch of upstream that saves time is worth, measured now.

`python -m ethos_hil.suites.lab self-bench patches`; part of `make bench`. Each model is lowered for an Ethos-U55-128
with all patches (ethos_hil.lowering.upstream.patches.table.SPEED), without each of them, and without all, in turn, each
time with an empty cache. What counts is the CPU time of this process: Vela runs in it, too. A ratio compares two
lowerings of one round, and the median is taken over the rounds, so a change of what else the machine does cancels.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering import lower as lowering
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, Patch, patches_on, replace_attribute
from ethos_hil.lowering.upstream.patches.table import SPEED
from ethos_hil.suites.declare.case import Case, call, case, f32, layer
from ethos_hil.suites.lab.measure.cost.figure import Figure

TARGET = EthosU.parse("ethos-u55-128")
CASES = (
    case("add", call("add"), f32(1, 8, 16, 16), f32(1, 8, 16, 16)),
    case("conv2d", layer("Conv2d", 8, 16, 3), f32(1, 8, 16, 16)),
    case("softmax", layer("Softmax", -1), f32(1, 8, 16, 16)),
)
NETWORKS = ("mobilenet_v1",)
ROUNDS = 7
NETWORK_ROUNDS = 3
PAYS = 1.02
"""A patch without which no model takes more than so many times as long is not worth its keep."""
_ALL, _NONE = "all", "none"


@dataclass(frozen=True)
class Lowerings:
    """CPU seconds of the lowerings of one model.

    Attributes:
        model: its name.
        seconds: of each round, by what was left out ("none": nothing; "all": all patches).
    """

    model: str
    seconds: Mapping[str, Sequence[float]]

    @property
    def patched(self) -> float:
        """The median with all patches."""
        return statistics.median(self.seconds[_NONE])

    def ratio(self, left_out: str) -> float:
        """How many times as long a lowering takes without these patches."""
        pairs = zip(self.seconds[left_out], self.seconds[_NONE], strict=True)
        return statistics.median(without / patched for without, patched in pairs)


def choices(patches: Sequence[Patch]) -> dict[str, tuple[Patch, ...]]:
    """The patches that are applied, by what is left out: nothing, each detour of upstream's, and all.

    Patches with the same replacement go together.
    """
    kinds = dict.fromkeys(map(detour, patches))
    return {
        _NONE: tuple(patches),
        **{kind: tuple(patch for patch in patches if detour(patch) != kind) for kind in kinds},
        _ALL: (),
    }


def detour(patch: Patch) -> str:
    """Return the name of what a patch replaces a detour of upstream's with: its function's, or its own."""
    return str(getattr(patch.make, "__name__", patch.name))  # a partial has no name


def seconds(model: TorchModel) -> tuple[float, str]:
    """CPU seconds of one lowering from an empty cache, and the SHA-256 of the program."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        started = time.process_time()
        artifact = lowering.lower(model, TARGET, cache=cache)
        return time.process_time() - started, artifact.sha256


def lowerings(
    name: str,
    model: TorchModel,
    rounds: int,
    patches: Sequence[Patch] = SPEED,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> Lowerings:
    """Lower a model in all ways, `rounds` times.

    Args:
        name: the model's.
        model: the model.
        rounds: how often.
        patches: rows of the table that only save time.
        step: called before each round with how many are done, and how many there are.

    Raises:
        ToolError: a patch changes the program, or patches are off.
    """
    if not patches_on():
        raise ToolError(f"{VARIABLE}=off: there is nothing to measure", hint="unset it")
    ways = choices(patches)
    times: dict[str, list[float]] = {way: [] for way in ways}
    programs: dict[str, str] = {}
    for number in range(rounds):
        step(number, rounds)
        for way, applied in ways.items():
            with replace_attribute(lowering, "SPEED", applied):
                taken, programs[way] = seconds(model)
            times[way].append(taken)
        if len(set(programs.values())) > 1:
            raise ToolError(f"the program of {name} depends on patches that only save time: {programs}")
    return Lowerings(name, times)


def table(rows: Sequence[Lowerings]) -> Table:
    """Patches down, models across."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("CPU time of a lowering without the patches of")
    for row in rows:
        grid.add_column(f"{row.model}, with {row.patched:.2f} s", justify="right")
    for way in list(rows[0].seconds)[1:]:
        grid.add_row(way, *(f"{row.ratio(way):.2f} times" for row in rows))
    return grid


def figures(rows: Sequence[Lowerings]) -> Iterator[Figure]:
    """Yield what each detour of upstream's costs at most: a patch must pay for one model at least."""
    provenance = f"CPU time, median of {ROUNDS} rounds ({NETWORK_ROUNDS} of a network)"
    for way in rows[0].seconds:
        if way != _NONE:
            most = max(row.ratio(way) for row in rows)
            yield Figure(f"without the patches of {way}", most, "times", provenance, at_least=PAYS)


def models() -> dict[str, tuple[TorchModel, int]]:
    """The models, by name, with the rounds that each gets. Imports torch."""
    from ethos_hil.suites.trial.build import build

    def built(declared: Case) -> TorchModel:
        return build(declared.name, declared, Path(__file__).parent)

    by_name = {declared.name: (built(declared), ROUNDS) for declared in CASES}
    for name in NETWORKS:
        network = load_model(f"ethos_hil.suites.models:{name}")
        assert isinstance(network, TorchModel)
        by_name[name] = (network, NETWORK_ROUNDS)
    return by_name


def measure(live: Live) -> Iterator[Figure | RenderableType]:
    """Lower every model with and without each patch."""
    rows = []
    live.stage("Loading torch")
    measured = models()
    first, _ = next(iter(measured.values()))
    seconds(first)  # torch and ExecuTorch are imported, and fill their caches
    for name, (model, rounds) in measured.items():
        live.stage(f"Lowering {name} with and without patches")
        rows.append(lowerings(name, model, rounds, step=live.step))
    yield table(rows)
    yield from figures(rows)
