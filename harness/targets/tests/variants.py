"""FVPs that differ from one another, for tests: each is one of our launchers behind a shell script that varies it."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.harness.socs.registry import FvpModel

ARMS_VERSION = "Fast Models [11.27.42 (Oct  9 2024)]"

_SCRIPT = """#!/bin/sh
here={here}
launcher={launcher}
case "$1" in --*) echo "$1" >> "$here/questions" ;; esac
case "$1" in
  --version) echo {version}; exit 0 ;;
  --list-params) {listing} ;;
esac
# A real FVP refuses parameters that it does not have.
for argument in "$@"; do
  if [ "$option" = -C ] && ! grep -qF -- "${{argument%%=*}}=" "$here/listing"; then
    echo "Error: ${{argument%%=*}} is not a parameter of this model"
    exit 1
  fi
  case "$argument" in *uart0.out_file=*) uart="${{argument#*out_file=}}" ;; esac
  option="$argument"
done
printf '%s\\n' "$@" > "$here/arguments"
# What the launcher has another name for.
count=$#
while [ $count -gt 0 ]; do
  set -- "$@" "${{1#{prefix}}}"
  shift
  count=$((count - 1))
done
{body}
"""
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
        text = subprocess.run([launcher, "--list-params"], capture_output=True, text=True, check=True).stdout
        heading = [line for line in text.splitlines() if line.startswith("#")]
        own = [line for line in text.splitlines() if line and not line.startswith(("#", *self.without))]
        lines = [*heading, *(self.prefix + line for line in own)]
        (folder / "listing").write_text("\n".join([*lines, ""]))
        path = folder / model.fvp.executable
        script = _SCRIPT.format(
            here=shlex.quote(str(folder)),
            launcher=shlex.quote(str(launcher)),
            version=shlex.quote(ARMS_VERSION),
            listing=self.listing,
            prefix=self.prefix,
            body=self.body,
        )
        path.write_text(script)
        path.chmod(0o755)
        return path
