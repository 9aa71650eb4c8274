"""The pages of docs/defects, and the table of the first of them, from the declarations in lowering/repairs."""

from __future__ import annotations

from importlib import import_module

from ethos_hil.base.plain_text import sentence
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.mend import DEFECTS

_PAGE = """\
## Met by

{title}

| | |
|---|---|
| versions of Vela | {versions} |
| NPUs | {npus} |
| reproducer | [{id}.py](reproduce/{id}.py) |

## Effect

{effect}

## Without the repair

{remedy}.{more}
"""
_LAST = "\n## Without the repair\n"


def module_of(defect: VelaDefect) -> str:
    """The name of the module that declares a defect: the defect's, without Vela's."""
    return defect.id.removeprefix("vela-").replace("-", "_")


def stub(defect: VelaDefect) -> str:
    """The file of a defect's page: what is in a checkout."""
    declaration = f"lowering/repairs/{module_of(defect)}.py"
    return (
        f"# {defect.id}\n\nThe site makes this page of the text in [{declaration}](../../{declaration}).\n\n"
        f"```{{generated}} {defect.id}\n```\n"
    )


def pages() -> dict[str, str]:
    """The page of each defect by its id, without its heading, and the table of all of them, "defects"."""
    lines = ["| defect | met by | NPUs | here |", "|---|---|---|---|"]
    for defect in DEFECTS:
        here = " or ".join("repaired" if repaired else "refused" for _, repaired in defect.treatments)
        npus = ", ".join(family.name.upper() for family in defect.families)
        lines.append(f"| [{defect.id}]({defect.id}.md) | {_text(defect)[0].rstrip('.')} | {npus} | {here} |")
    return {"defects": "\n".join(lines) + "\n", **{defect.id: _page(defect) for defect in DEFECTS}}


def _text(defect: VelaDefect) -> tuple[str, str]:
    """The first line of a declaration's docstring, and the rest."""
    text = import_module(f"ethos_hil.lowering.repairs.{module_of(defect)}").__doc__ or ""
    title, _, rest = text.partition("\n")
    return title, rest.strip()


def _page(defect: VelaDefect) -> str:
    title, text = _text(defect)
    effect, _, more = text.partition(_LAST)
    return _PAGE.format(
        title=title,
        versions=", ".join(defect.versions.seen) + "".join(f"; not {gone}" for gone in defect.versions.gone),
        npus=", ".join(family.title for family in defect.families),
        id=defect.id,
        effect=effect.strip(),
        remedy=sentence(defect.remedy),
        more=f"\n{more.strip()}" if more else "",
    )
