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

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DATA = Path(__file__).parent / "data"
# One configuration of each generation: the columns of the short table in docs/npu.md.
_THREE = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def data(name: str) -> Any:
    """What docs/data has of that name."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


@cache
def _operators() -> dict[str, str]:
    from ethos_hil.suites.lab import coverage

    return coverage.markdown(coverage.Upstream.read(), coverage.declared())


@cache
def _upstream() -> dict[str, str]:
    from ethos_hil.suites.lab.upstream.table import markdown

    return markdown(data("upstream"))


@cache
def _zoo() -> dict[str, str]:
    from ethos_hil.suites.lab.zoo.table import markdown

    return markdown(data("zoo"))


@cache
def _published() -> dict[str, str]:
    from ethos_hil.suites.lab.published.tables import markdown

    return markdown()


def _model_error() -> str:
    from ethos_hil.base.npu.ethos_u import FAMILIES

    lines = ["| family | published runs | median error | worst error | worst is |", "|---|---:|---:|---:|---|"]
    lines += [
        f"| {family.name.upper()} | {error.runs} | {error.median:.1%} | {error.worst:.1%} | {error.worst_of} |"
        for family in FAMILIES
        if (error := family.held_out)
    ]
    return "\n".join(lines) + "\n"


def _fvp_parameters() -> str:
    from ethos_hil.harness.fvp_stand_in import tables

    return tables.parameters()


def _fvp_options() -> str:
    from ethos_hil.harness.fvp_stand_in import tables

    return tables.options()


def _fvp_settings() -> str:
    from ethos_hil.harness.targets import fvp_parameter_table

    return fvp_parameter_table.markdown()


def _kernels() -> str:
    import kernel_table

    return kernel_table.markdown()


def _npu_operations() -> str:
    """Each operation, without its forms, on one NPU of each generation."""
    from ethos_hil.suites.lab.conformance import coverage

    whole = {kind: counts for kind, counts in data("npu-coverage")["operations"].items() if "," not in kind}
    return coverage.table(whole, _THREE)


def _npu_forms() -> str:
    from ethos_hil.suites.lab.conformance import coverage

    covered = data("npu-coverage")
    return coverage.table(covered["operations"], covered["npus"])


def _npu_outcomes() -> str:
    outcomes: dict[str, int] = data("npu-coverage")["outcomes"]
    counts = [f"{count:,}" for count in outcomes.values()]
    return f"| {' | '.join(outcomes)} |\n{'|---:' * len(outcomes)}|\n| {' | '.join(counts)} |\n"


def _bench_grid() -> str:
    from ethos_hil.harness.bench.grid_file import default_grid

    lines, group = ["| group | case | what | inputs | bits | tag |", "|---|---|---|---|---|---|"], ""
    for case in default_grid().cases:
        steps, inputs = ", ".join(map(str, case.steps)), ", ".join(map(str, case.inputs))
        cells = (case.group if case.group != group else "", f"`{case.name}`", f"`{steps}`", inputs, case.scheme)
        lines.append(f"| {' | '.join(cells)} | {', '.join(case.tags)} |")
        group = case.group
    return "\n".join(lines) + "\n"


def _fuzzing_sessions() -> str:
    found = data("fuzzing")
    lines = ["| date | machine | fuzzer | minutes | inputs | findings |", "|---|---|---|---:|---:|---:|"]
    for one in found["sessions"]:
        where = (one.get("date", found["date"]), one.get("machine", found["machine"]))
        cells = (*where, one["what"], one["minutes"], f"{one['inputs']:,}", one["findings"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _fuzzing_boots() -> str:
    boots = data("fuzzing")["boots"]
    cells = [value if isinstance(value, str) else f"{value:,}" for value in boots.values()]
    return f"| {' | '.join(boots)} |\n|---{'|---:' * (len(boots) - 1)}|\n| {' | '.join(cells)} |\n"


def _clocks() -> str:
    from ethos_hil.base.clock import frequency
    from ethos_hil.results.known_clocks import PARTS

    lines = ["| `--clock` | part | NPU | its clock | CPU | source |", "|---|---|---|---:|---:|---|"]
    for each in PARTS:
        cpu = frequency(each.cpu_hz) if each.cpu_hz else ""
        cells = (f"`{each.name}`", each.part, each.npu or "as built", frequency(each.hz), cpu, each.source)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _system_clocks() -> str:
    from ethos_hil.base.clock import frequency
    from ethos_hil.results.known_clocks import SYSTEM_CLOCKS

    lines = ["| `--clock` | the NPU's clock |", "|---|---:|"]
    lines += [f"| `{name}` | {frequency(hz)} |" for name, hz in SYSTEM_CLOCKS.items()]
    return "\n".join(lines) + "\n"


def _mutation_scores() -> str:
    lines = ["| room | tests | mutants | killed | survived | not reached | equivalent | score |"]
    lines += ["| --- |" + " ---: |" * 7]
    for each in data("mutants-of-code")["rooms"]:
        counts = (each[name] for name in ("mutants", "killed", "survived", "not reached", "equivalent"))
        cells = (each["room"], each["tests"] or "-", *counts, f"{each['percent']:.0f} %")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


@cache
def _defects() -> dict[str, str]:
    import defect_pages

    return defect_pages.pages()


@cache
def _boards() -> dict[str, str]:
    from ethos_hil.harness.boards.board_tables import tables

    return tables()


_DEFECTS = sorted(path.stem for path in (Path(__file__).parent / "defects").glob("vela-*.md"))
_BOARDS = sorted(path.stem for path in (Path(__file__).parents[1] / "harness/boards/data").glob("*.toml"))


def _piece(pieces: Callable[[], dict[str, str]], name: str) -> str:
    return pieces()[name]


TABLES: dict[str, Callable[[], str]] = {
    **{f"operators-{name}": partial(_piece, _operators, name) for name in ("counts", "aten", "tosa", "cpu", "defects")},
    **{
        f"upstream-{name}": partial(_piece, _upstream, name)
        for name in ("run", "u55", "u65", "u85", "wrong", "unexpectedly-passed", "unusable")
    },
    **{
        f"zoo-{name}": partial(_piece, _zoo, f"zoo-{name}")
        for name in ("run", "verdicts", "architectures", "cpu", "refused")
    },
    **{
        f"published-{name}": partial(_piece, _published, f"published-{name}")
        for name in ("summary", "beats", "off", "sweeps", "operations", "boards")
    },
    **{
        name: partial(_piece, _boards, name)
        for name in ("boards", "board-keys", "board-quirks", *(f"board-{name}" for name in _BOARDS))
    },
    **{name: partial(_piece, _defects, name) for name in ("defects", *_DEFECTS)},
    "fvp-parameters": _fvp_parameters,
    "fvp-options": _fvp_options,
    "fvp-settings": _fvp_settings,
    "model-error": _model_error,
    "clocks": _clocks,
    "system-clocks": _system_clocks,
    "kernels": _kernels,
    "npu-operations": _npu_operations,
    "npu-forms": _npu_forms,
    "npu-outcomes": _npu_outcomes,
    "bench-grid": _bench_grid,
    "fuzzing-sessions": _fuzzing_sessions,
    "fuzzing-boots": _fuzzing_boots,
    "mutation-scores": _mutation_scores,
}


def table(name: str) -> str:
    """The table of that name, in Markdown. What torch and ExecuTorch say while they are imported is not shown."""
    from ethos_hil.lowering.conditions.silence_tools import quiet

    with quiet():
        return TABLES[name]()


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive; Sphinx calls it."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class GeneratedTable(SphinxDirective):
        """`{generated} NAME`: the table of that name. A text with headings must begin with one."""

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
