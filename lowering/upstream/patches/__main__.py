"""Prints the table of patches, and for each row whether it fits what is installed. Exit status 1 if one does not."""

from __future__ import annotations

import inspect
import sys

from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.upstream.patches.patch import Patch, UpstreamDiffers, fingerprint, resolve
from ethos_hil.lowering.upstream.patches.table import TABLE


def describe(patch: Patch) -> tuple[str, bool]:
    """A row for people, and whether it fits. Imports what is patched."""
    try:
        patch.find()
        state, fits = "fits", True
    except UpstreamDiffers as difference:
        state, fits = f"DOES NOT FIT: {difference}", False
    heading = f"{patch.name}: {state}\n"
    lines = [
        ("replaces", patch.target),
        ("made for", f"{patch.package} {' and '.join(patch.versions)}; installed: {patch.installed}"),
        ("without it", "results may differ" if patch.changes_result else "lowering takes longer"),
        ("why", patch.why),
        ("gain", patch.gain),
    ]
    for name, known in patch.fingerprints:
        source = _find(name)
        lines += [("covers", name), ("", _place(name)), ("", known)]
        lines += [("", f"{source} is installed")] if source != known else []
    return heading + "".join(f"  {key:12}{value}\n" for key, value in lines), fits


def _find(name: str) -> str:
    try:
        return fingerprint(name)
    except UpstreamDiffers as difference:
        return str(difference)


def _place(name: str) -> str:
    """The file and line of something of upstream's."""
    try:
        thing = inspect.unwrap(resolve(name))
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (UpstreamDiffers, OSError, TypeError):
        return "not found"


def main() -> int:
    """Print the table."""
    with quiet():
        rows = [describe(patch) for patch in TABLE]
    sys.stdout.write("\n".join(text for text, _ in rows))
    return 0 if all(fits for _, fits in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
