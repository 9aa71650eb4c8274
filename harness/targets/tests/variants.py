"""FVPs that differ from one another, for tests: each is one of our launchers behind a shell script that varies it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.harness.fvp_stand_in.parameters import listing
from ethos_hil.harness.socs.registry import FvpModel

ARMS_VERSION = "Fast Models [11.27.42 (Oct  9 2024)]"

DATA = Path(__file__).parent / "data"
_SCRIPT = (DATA / "variant.sh").read_text()
_LIST = 'cat "$here/listing"; exit 0'
RUN = 'exec "$launcher" "$@"'


@dataclass(frozen=True)
class FvpVariant:
    """How an FVP differs from our launcher.

    Attributes:
        without: beginnings of parameters' names that it does not have.
        prefix: an instance before all names.
        listing: what `--list-params` does, as shell commands that end it; "$here/listing" is the list.
        body: what a run does, as shell commands: "$launcher" "$@" is the launcher's, "$uart" the UART's file.
    """

    without: tuple[str, ...] = ()
    prefix: str = ""
    listing: str = _LIST
    body: str = RUN

    def install(self, folder: Path, model: FvpModel, launchers: Path) -> Path:
        """Write the FVP to `folder` and return its path."""
        folder.mkdir(exist_ok=True)
        launcher = launchers / model.fvp.executable
        lines = [line for line in listing(model).splitlines() if line and not line.startswith(self.without or "\0")]
        text = "".join(f"{'' if line.startswith('#') else self.prefix}{line}\n" for line in lines)
        (folder / "listing").write_text(text)
        path = folder / model.fvp.executable
        words = {"here": str(folder), "launcher": str(launcher), "version": ARMS_VERSION}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        path.write_text(_SCRIPT.format(**quoted, listing=self.listing, prefix=self.prefix, body=self.body))
        path.chmod(0o755)
        return path
