"""The site of the documents: `make docs` builds it with Sphinx into build/docs.

The root of the sources is the repository, not this folder, so that a link leads to the same file on the site and in a
checkout, the README and firmware/README.md included.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.process import SELDOM

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
gc.set_threshold(*SELDOM)  # most of what is made stays until the end: a build takes 0.82 of the CPU time

project = "ethos-hil"
extensions = ["docstrings", "generated_tables", "myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "firmware/README.md"]
exclude_patterns = [
    ".*",
    "build",
    "src",
    "harness",
    "lowering",
    "results",
    "suites",
    "firmware/[!R]*",
    "**/__pycache__",
]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["deflist", "attrs_block"]
myst_heading_anchors = 4  # every heading is a target, by the name that a forge gives it
highlight_language = "none"

default_role = "literal"  # docstrings write names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "ethos-hil"
html_show_copyright = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Lead from the site's first address to its first page."""

    def lead(app: Sphinx, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            page = (
                f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>{project}</title>\n'
            )
            (Path(app.outdir) / "index.html").write_text(page)

    app.connect("build-finished", lead)
