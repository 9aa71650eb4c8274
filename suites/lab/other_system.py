"""Make targets on another release of Debian or Ubuntu, in a clean clone in a chroot, as for who has just cloned it.

    python -m ethos_hil.suites.lab system trixie demo "suites OPTIONS='--one-in 8'"

The chroot is made once, by debootstrap, which reads the release's archive; it needs root. What runs there has
namespaces of its own: its processes and mounts are gone when it ends, and when this is killed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.process import end_child, start_child
from ethos_hil.suites.lab.shared import ROOT

DEBIAN = ("http://deb.debian.org/debian", "main", "sid")
UBUNTU = ("http://archive.ubuntu.com/ubuntu", "main,universe", "gutsy")
"""A mirror, the components, and debootstrap's script, which has a name of its own for few releases."""
RELEASES: Mapping[str, tuple[str, str, str]] = {"bookworm": DEBIAN, "trixie": DEBIAN, "jammy": UBUNTU, "noble": UBUNTU}
INCLUDED = "ca-certificates,git,make,python3"
"""What someone has who has just cloned, beside the smallest system."""
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
HANDED_ON = ("PIP_", "SSL_CERT_", "http_proxy", "https_proxy", "no_proxy", "TORCH")
"""How the names of variables begin that a command there has, too."""
CLONE = "root/ethos-hil"


def main(
    release: Annotated[str, typer.Argument(help=f"{', '.join(RELEASES)}, or any of Debian with --mirror.")],
    goals: Annotated[list[str], typer.Argument(metavar="GOAL...", help="Lines for make, in turn, such as demo.")],
    folder: Annotated[Path | None, typer.Option(help="Of the chroot; default: build/chroot/RELEASE.")] = None,
    mirror: Annotated[str | None, typer.Option(metavar="URL", help="The archive; default: the release's own.")] = None,
    bind: Annotated[list[Path] | None, typer.Option(metavar="FOLDER", help="It is there, too, to be read.")] = None,
) -> None:
    """Run make targets in a clean clone on another release of Debian or Ubuntu. Needs root and debootstrap."""
    if release not in RELEASES and mirror is None:
        raise UsageError(f"the archive of {release} is not known", hint=f"--mirror, or one of {', '.join(RELEASES)}")
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        raise UsageError("a chroot needs root and debootstrap", hint="apt install debootstrap")
    root = (folder or ROOT / "build/chroot" / release).resolve()
    make_system(root, release, mirror)
    take_clone(root)
    for goal in goals:
        run_inside(root, ["sh", "-c", f"cd /{CLONE} && make --no-print-directory {goal}"], bind or ())


def make_system(root: Path, release: str, mirror: str | None) -> None:
    """Make the chroot, unless it is whole."""
    done = root / "etc/ethos-hil-chroot"
    if not done.exists():
        shutil.rmtree(root, ignore_errors=True)
        usual, components, script = RELEASES.get(release, DEBIAN)
        options = ["--variant=minbase", f"--include={INCLUDED}", f"--components={components}"]
        place = [release, str(root), mirror or usual, f"/usr/share/debootstrap/scripts/{script}"]
        _run(["debootstrap", *options, *place])
        with (root / "etc/apt/sources.list").open("a") as sources:  # as an installed system has it
            sources.write(f"deb {mirror or usual} {release}-updates {components.replace(',', ' ')}\n")
        done.touch()
    # This computer's way to others: names, and whose certificates it trusts.
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(f"/{name}", root / name)


def take_clone(root: Path) -> None:
    """Bring the clone to this checkout's commit, without what is not committed. What set-up has made there stays."""
    clone = root / CLONE
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    subprocess.run(["git", "fetch", "-q", "origin", head.strip()], cwd=clone, check=True)
    subprocess.run(["git", "reset", "-q", "--hard", "FETCH_HEAD"], cwd=clone, check=True)


def run_inside(root: Path, command: Sequence[str], bind: Sequence[Path] = ()) -> None:
    """Run a command in a chroot. Raises typer.Exit with its status, if that is not 0."""
    steps = [f"mount -t proc proc {shlex.quote(f'{root}/proc')}", f"mount --rbind /dev {shlex.quote(f'{root}/dev')}"]
    for folder in bind:
        there = root / folder.resolve().relative_to("/")
        there.mkdir(parents=True, exist_ok=True)
        steps.append(f"mount --bind -o ro {shlex.quote(str(folder.resolve()))} {shlex.quote(str(there))}")
    handed = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(HANDED_ON)]
    environment = ["HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", *handed]
    steps.append(shlex.join(["exec", "chroot", str(root), "env", "-i", *environment, *command]))
    _run(["sh", "-ec", "\n".join(steps)])


def _run(command: Sequence[str]) -> None:
    """Run a command in namespaces of its own. Its processes and mounts end with it, or with us."""
    process = start_child([*NAMESPACES, *command], stdout=None, stderr=None)
    try:
        status = process.wait()
    finally:
        end_child(process, 0)
    if status:
        raise typer.Exit(status)
