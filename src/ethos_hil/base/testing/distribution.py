"""Made-up distributions: metadata in a folder, as pip leaves it, and modules beside it."""

from __future__ import annotations

from pathlib import Path


def distribution(place: Path, name: str, entry_points: str = "", version: str = "1.0", **modules: str) -> Path:
    """Return the folder to put on the path, with a distribution in it.

    Args:
        place: the folder; it may have other distributions.
        name: the distribution's.
        entry_points: the text of entry_points.txt.
        version: the distribution's.
        modules: their text by name.
    """
    metadata = place / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    for module, text in modules.items():
        (place / f"{module}.py").write_text(text)
    return place
