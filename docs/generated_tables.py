"""Parts of the documents that are made when the site is built, and not kept: `{generated} NAME` in a page.

Most are read from the code, in seconds. What takes hours to measure is kept as data (docs/data) and shown as a table
here. `python docs/generated_tables.py NAME` prints one, without a name their names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.suites.lab.shared import markdown_table

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DATA = Path(__file__).parent / "data"


def data(name: str) -> Any:
    """What docs/data has of that name."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


@cache
def _operators() -> dict[str, str]:
    from ethos_hil.suites.lab import coverage

    return coverage.markdown(coverage.Upstream.read(), coverage.declared())


@cache
def _upstream() -> dict[str, str]:
    from ethos_hil.suites.lab.prove.upstream.table import markdown

    return markdown(data("upstream"))


@cache
def _zoo() -> dict[str, str]:
    from ethos_hil.suites.lab.prove.zoo.table import markdown

    return markdown(data("zoo"))


def _matrix() -> str:
    from ethos_hil.suites.lab.prove.matrix import markdown, read

    return markdown(read(DATA / "matrix.json"))


@cache
def _published() -> dict[str, str]:
    from ethos_hil.suites.lab.prove.published.tables import markdown

    return markdown()


def _kernels() -> str:
    import kernel_table

    return kernel_table.markdown()


def _tiers() -> str:
    import tiers_table

    return tiers_table.markdown()


def _npu_operations() -> str:
    """A row for each operation, a column for each NPU: the programs that have it and were exact."""
    covered = data("npu-coverage")
    short = [npu.removeprefix("ethos-") for npu in covered["npus"]]
    rows = [(name, *(counts[npu] or "" for npu in covered["npus"])) for name, counts in covered["operations"].items()]
    return markdown_table(("operation", *short), rows, right=short)


@cache
def _boards() -> dict[str, str]:
    import harness_tables

    return harness_tables.board_tables()


def _of_fvps(name: str) -> str:
    import harness_tables

    text: str = getattr(harness_tables, name)()
    return text


def _model_error() -> str:
    from ethos_hil.base.npu.ethos_u import FAMILIES

    rows = (
        (family.name.upper(), error.runs, f"{error.median:.1%}", f"{error.worst:.1%}", error.worst_of)
        for family in FAMILIES
        if (error := family.held_out)
    )
    head = ("family", "published runs", "median error", "worst error", "worst is")
    return markdown_table(head, rows, right=head[1:4])


def _npu_outcomes() -> str:
    outcomes: dict[str, int] = data("npu-coverage")["outcomes"]
    return markdown_table(list(outcomes), [[f"{count:,}" for count in outcomes.values()]], right=list(outcomes))


def _bench_grid() -> str:
    from ethos_hil.harness.bench.grid_file import default_grid

    rows, group = [], ""
    for case in default_grid().cases:
        steps, inputs = ", ".join(map(str, case.steps)), ", ".join(map(str, case.inputs))
        shown = case.group if case.group != group else ""
        rows.append((shown, f"`{case.name}`", f"`{steps}`", inputs, case.scheme, ", ".join(case.tags)))
        group = case.group
    return markdown_table(("group", "case", "what", "inputs", "bits", "tag"), rows)


def _fuzzing_sessions() -> str:
    record = data("fuzzing")
    rows = (
        (
            session.get("date", record["date"]),
            session.get("machine", record["machine"]),
            *(session["what"], session["minutes"], f"{session['inputs']:,}", session["findings"]),
        )
        for session in record["sessions"]
    )
    head = ("date", "machine", "fuzzer", "minutes", "inputs", "findings")
    return markdown_table(head, rows, right=("minutes", "inputs", "findings"))


def _fuzzing_boots() -> str:
    boots = data("fuzzing")["boots"]
    cells = [value if isinstance(value, str) else f"{value:,}" for value in boots.values()]
    return markdown_table(list(boots), [cells], right=list(boots)[1:])


def _clocks() -> str:
    from ethos_hil.base.clock import frequency
    from ethos_hil.results.latency import PARTS

    rows = (
        (
            f"`{clock.name}`",
            clock.part,
            clock.npu or "as built",
            frequency(clock.hz),
            frequency(clock.cpu_hz) if clock.cpu_hz else "",
            clock.source,
        )
        for clock in PARTS
    )
    return markdown_table(("`--clock`", "part", "NPU", "its clock", "CPU", "source"), rows, right=("its clock", "CPU"))


def _system_clocks() -> str:
    from ethos_hil.base.clock import frequency
    from ethos_hil.results.latency import SYSTEM_CLOCKS

    rows = ((f"`{name}`", frequency(hz)) for name, hz in SYSTEM_CLOCKS.items())
    return markdown_table(("`--clock`", "the NPU's clock"), rows, right=("the NPU's clock",))


def _mutation_scores() -> str:
    counted = ("mutants", "killed", "survived", "not reached", "equivalent")
    rows = (
        (score["room"], score["tests"] or "-", *(score[name] for name in counted), f"{score['percent']:.0f} %")
        for score in data("mutants-of-code")["rooms"]
    )
    return markdown_table(("room", "tests", *counted, "score"), rows, right=("tests", *counted, "score"))


def _baselines_run() -> str:
    kept = data("baselines")
    booted = sum(point["verdict"] == "verified" for point in kept["points"])
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    return (
        f"- {len(kept['points']):,} points: {booted} booted and verified, the others compiled and timed.\n"
        f"- Timing model `{kept['timing_model']}`.\n- {versions}.\n"
    )


def _baselines() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The points by network and NPU; the first of an NPU is in ExecuTorch's default memory mode."""
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.vela.memory_mode import MemoryMode

    table: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for point in data("baselines")["points"]:
        table.setdefault(point["label"], {}).setdefault(point["npu"], []).append(point)
    for by_npu in table.values():
        for npu, points in by_npu.items():
            default = MemoryMode.default(EthosU.parse(npu)).name
            points.sort(key=lambda point: point["memory_mode"] != default)
    return table


def _baselines_overview() -> str:
    from ethos_hil.base.npu.ethos_u import EthosU

    def cell(point: dict[str, Any]) -> str:
        per_second = point["clock_hz"] / point["cycles"]
        return f"{1e3 / per_second:,.3g} ({per_second:,.{1 if per_second < 10 else 0}f})"

    head = ("network", *(npu.removeprefix("ethos-") for npu in EthosU.names()))
    rows = [(f"`{name}`", *(cell(by_npu[npu][0]) for npu in EthosU.names())) for name, by_npu in _baselines().items()]
    return markdown_table(head, rows, right=head[1:])


def _booted() -> dict[str, list[dict[str, Any]]]:
    """The points of each network that were booted: an NPU of each generation, in its default memory mode."""
    firsts = {name: [points[0] for points in by_npu.values()] for name, by_npu in _baselines().items()}
    return {name: [point for point in points if point["verdict"] == "verified"] for name, points in firsts.items()}


def _baselines_answers() -> str:
    booted = _booted()
    npus = [point["npu"].removeprefix("ethos-") for point in next(iter(booted.values()))]
    head = ("network", "million MACs", *(f"SQNR {npu}, dB" for npu in npus))
    rows = (
        (f"`{name}`", f"{points[0]['macs'] / 1e6:,.1f}", *(f"{point['sqnr_db']:.1f}" for point in points))
        for name, points in booted.items()
    )
    return markdown_table(head, rows, right=head[1:])


def _baselines_layouts() -> str:
    booted = _booted()
    head = ("network", *(point["npu"].removeprefix("ethos-") for point in next(iter(booted.values()))))
    rows = (
        (f"`{name}`", *(f"{point['transpose_cycles'] / point['cycles']:.0%}" for point in points))
        for name, points in booted.items()
    )
    return markdown_table(head, rows, right=head[1:])


def _baselines_cpu() -> str:
    calls: dict[tuple[str, str, int, str], list[str]] = {}
    for name, points in _booted().items():
        for point in points:
            for call in point["on_cpu"]:
                key = (name, call["operator"], call["calls"], call["reason"])
                calls.setdefault(key, []).append(point["npu"].split("-")[1].upper())
    rows = (
        (f"`{name}`", ", ".join(npus), f"`{operator}`", count, f"`{reason}`")
        for (name, operator, count, reason), npus in calls.items()
    )
    return markdown_table(("network", "NPUs", "kernel", "calls", "why it is on the CPU"), rows, right=("calls",))


def _baselines_estimates() -> str:
    from statistics import median

    modes = ("Shared_Sram", "Sram_Only", "Dedicated_Sram_384KB")
    ratios: dict[tuple[str, str], list[float]] = {}
    for point in data("baselines")["points"]:
        place = (point["npu"].split("-")[1].upper(), point["memory_mode"])
        ratios.setdefault(place, []).append(point["cycles"] / point["vela_cycles"])
    rows = (
        (family, *(f"{median(of):.2f} ({min(of):.2f} to {max(of):.2f})" if of else "" for of in spreads))
        for family in ("U55", "U65", "U85")
        if (spreads := [ratios.get((family, mode), []) for mode in modes])
    )
    return markdown_table(("NPUs", *modes), rows)


def _baselines_points() -> str:
    from ethos_hil.base.npu.ethos_u import EthosU

    head = (
        *("NPU", "memory mode", "ms", "cycles", "Vela's estimate", "SRAM, KiB", "off chip, KiB", "weights, KiB"),
        *("MACs used", "held up by", "checked"),
    )
    sections = []
    for name, by_npu in _baselines().items():
        rows = (
            (
                *(
                    npu.removeprefix("ethos-"),
                    point["memory_mode"],
                    f"{1e3 * point['cycles'] / point['clock_hz']:,.3g}",
                ),
                *(f"{point['cycles']:,}", f"{point['vela_cycles']:,}"),
                *(f"{point[size] / 1024:,.0f}" for size in ("sram_peak", "dram_bytes", "weight_bytes")),
                f"{point['macs'] / (point['cycles'] * EthosU.parse(npu).macs):.0%}",
                *(point["bound_by"], point["verdict"]),
            )
            for npu, points in by_npu.items()
            for point in points
        )
        sections.append(f"### {name}\n\n{markdown_table(head, rows, right=head[2:9])}")
    return "\n\n".join(sections)


@cache
def _defects() -> dict[str, str]:
    import defect_pages

    return defect_pages.pages()


_DEFECTS = sorted(path.stem for path in (Path(__file__).parent / "defects").glob("vela-*.md"))
_BOARDS = sorted(path.stem for path in (Path(__file__).parents[1] / "harness/boards/data").glob("*.toml"))


def _piece(pieces: Callable[[], dict[str, str]], name: str) -> str:
    return pieces()[name]


TABLES: dict[str, Callable[[], str]] = {
    **{f"operators-{name}": partial(_piece, _operators, name) for name in ("counts", "aten", "cpu", "defects")},
    **{
        f"upstream-{name}": partial(_piece, _upstream, name)
        for name in ("run", "u55", "u65", "u85", "m55", "wrong", "unexpectedly-passed", "unusable")
    },
    **{
        f"zoo-{name}": partial(_piece, _zoo, f"zoo-{name}")
        for name in ("run", "verdicts", "architectures", "cpu", "refused", "waiting")
    },
    **{
        f"published-{name}": partial(_piece, _published, f"published-{name}")
        for name in ("errors", "networks", "summary", "beats", "off", "sweeps", "operations", "boards")
    },
    **{
        name: partial(_piece, _boards, name)
        for name in ("boards", "board-keys", "board-quirks", *(f"board-{name}" for name in _BOARDS))
    },
    **{name: partial(_piece, _defects, name) for name in ("defects", *_DEFECTS)},
    "fvp-parameters": partial(_of_fvps, "launcher_parameters"),
    "fvp-options": partial(_of_fvps, "launcher_options"),
    "fvp-settings": partial(_of_fvps, "fvp_settings"),
    "matrix": _matrix,
    "model-error": _model_error,
    "clocks": _clocks,
    "system-clocks": _system_clocks,
    "kernels": _kernels,
    "npu-operations": _npu_operations,
    "npu-outcomes": _npu_outcomes,
    "bench-grid": _bench_grid,
    "fuzzing-sessions": _fuzzing_sessions,
    "fuzzing-boots": _fuzzing_boots,
    "mutation-scores": _mutation_scores,
    "tiers": _tiers,
    "baselines-run": _baselines_run,
    "baselines-overview": _baselines_overview,
    "baselines-answers": _baselines_answers,
    "baselines-layouts": _baselines_layouts,
    "baselines-cpu": _baselines_cpu,
    "baselines-estimates": _baselines_estimates,
    "baselines-points": _baselines_points,
}


def table(name: str) -> str:
    """The table of that name, in Markdown. What torch and ExecuTorch say while they are imported is not shown."""
    from ethos_hil.lowering.conditions.process import quiet

    with quiet():
        return TABLES[name]()


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive; Sphinx calls it."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class GeneratedTable(SphinxDirective):
        """`{generated} NAME`: the table of that name. A text with headings must start with one."""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            name = self.arguments[0]
            if name not in TABLES:
                raise self.error(f"no table is called {name}; there are {', '.join(TABLES)}")
            return self.parse_text_to_nodes(table(name), allow_section_headings=True)

    app.add_directive("generated", GeneratedTable)
    return {"parallel_read_safe": True}


def main(names: list[str]) -> int:
    """Prints the tables of these names, or all names."""
    sys.stdout.write("\n".join(map(table, names)) if names else "\n".join(TABLES) + "\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main(sys.argv[1:]))
