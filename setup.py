"""Puts the list of its parts into the wheel, in the folder that PEP 770 gives it. Everything else is in pyproject.toml.

`make wheel` makes the list before the wheel and removes it afterwards (suites/lab/bill_of_materials.py); setuptools has
no setting for such files.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

BILL = Path(__file__).parent / "build/ethos-hil.cdx.json"


class WheelWithItsParts(bdist_wheel):
    """A wheel with the list of its parts, if there is one."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: Any, **named: Any) -> None:
        """Write the metadata; `wheelfile_base` is the folder that becomes the wheel's .dist-info."""
        super().write_wheelfile(wheelfile_base, *arguments, **named)
        if BILL.is_file():
            folder = Path(wheelfile_base) / "sboms"
            folder.mkdir(exist_ok=True)
            shutil.copyfile(BILL, folder / BILL.name)


setup(cmdclass={"bdist_wheel": WheelWithItsParts})
