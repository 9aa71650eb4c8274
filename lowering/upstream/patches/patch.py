"""One replacement in upstream, and whether what is installed is what it was made for."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import inspect
import pkgutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """A row of the table.

    Attributes:
        name: for people, unique in the table.
        package: the distribution that is patched.
        versions: the versions of it whose source was read and has these fingerprints.
        owner: the module or class whose attribute is replaced, dotted. It is imported when the patch is applied.
        attribute: what is replaced.
        make: gives the replacement. Its first argument is upstream's own value (None with `adds`); those of `apply`
            follow.
        fingerprints: the functions and classes whose source was read, by dotted name, each with its `fingerprint`:
            what is replaced, and what of upstream the replacement imitates or relies on.
        why: what upstream does, and what is done instead.
        gain: what it brings, measured where it saves time.
        changes_result: whether an artifact, or what is observed, may be another one without it. A patch of which that
            is not so only saves time.
        adds: upstream has no such attribute: it is added.
    """

    name: str
    package: str
    versions: tuple[str, ...]
    owner: str
    attribute: str
    make: Callable[..., Any]
    fingerprints: tuple[tuple[str, str], ...]
    why: str
    gain: str
    changes_result: bool
    adds: bool = False

    @property
    def target(self) -> str:
        """What is replaced, dotted."""
        return f"{self.owner}.{self.attribute}"

    @property
    def installed(self) -> str:
        """The installed version of the package, "missing" if there is none."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "missing"

    def find(self) -> tuple[Any, Any]:
        """The owner, and what its attribute is now (None with `adds`). Imports the owner.

        Raises:
            UpstreamDiffers: the owner or the attribute does not exist; with `adds`, the attribute does; or the source
                of what is covered is not what the patch was made for.
        """
        owner = resolve(self.owner)
        if hasattr(owner, self.attribute) is self.adds:
            raise UpstreamDiffers(f"{self.target} {'exists already' if self.adds else 'does not exist'}")
        changed = [name for name, known in self.fingerprints if fingerprint(name) != known]
        if changed:
            raise UpstreamDiffers(f"the source of {' and '.join(changed)} has changed")
        return owner, None if self.adds else getattr(owner, self.attribute)


class UpstreamDiffers(Exception):
    """What is installed is not what a patch was made for. The message says what differs."""


def resolve(name: str) -> Any:
    """What a dotted name stands for, its module imported.

    Raises:
        UpstreamDiffers: there is nothing of that name.
    """
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise UpstreamDiffers(f"{name} does not exist ({error})") from error


def fingerprint(name: str) -> str:
    """The SHA-256 of the source of a function, property or class, by its dotted name; hexadecimal.

    Raises:
        UpstreamDiffers: it does not exist, or has no source.
    """
    thing = resolve(name)
    try:
        return hashlib.sha256(_normalised(thing).encode()).hexdigest()
    except (OSError, TypeError, SyntaxError) as error:  # a lambda may stand anywhere in a line
        raise UpstreamDiffers(f"the source of {name} cannot be read ({error})") from error


@functools.cache  # of the very object: what takes its place under the same name is read anew
def _normalised(thing: Any) -> str:
    """The source of a function, property or class as Python understands it.

    It is parsed and written out again, without docstrings. So comments, blank lines, quotes and line breaks do not
    count, which are most of the changes between releases and change nothing of what is done. All else does: names,
    defaults, decorators, annotations.
    """
    source = inspect.getsource(getattr(thing, "fget", thing))
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.unparse(tree)
