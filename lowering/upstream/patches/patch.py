"""One replacement in upstream: whether what is installed is what it was made for, and putting it in place."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import os
import pkgutil
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import version
from ethos_hil.base.errors import ToolError, UsageError


@dataclass(frozen=True)
class Patch:
    """A row of the table.

    Attributes:
        name: for people, unique in the table.
        package: the distribution that is patched.
        versions: the versions of it whose source was read and has these fingerprints, the tested one last.
        owner: the module or class whose attribute is replaced, dotted. It is imported when the patch is applied.
        attribute: what is replaced.
        make: gives the replacement. Its first argument is upstream's own value (None with `adds`); those of `apply`
            follow.
        fingerprints: the functions and classes whose source was read, by dotted name, each with its `fingerprint`
            in every form that it has in these versions: what is replaced, and what of upstream the replacement
            imitates or relies on.
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
    fingerprints: tuple[tuple[str, tuple[str, ...]], ...]
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
        return version(self.package) or "missing"

    def find(self) -> tuple[Any, Any]:
        """The owner, and what its attribute is now (None with `adds`). Imports the owner.

        Raises:
            UpstreamDiffers: the owner or the attribute does not exist; with `adds`, the attribute does; or the source
                of what is covered is not what the patch was made for.
        """
        owner = resolve(self.owner)
        if hasattr(owner, self.attribute) is self.adds:
            raise UpstreamDiffers(f"{self.target} {'exists already' if self.adds else 'does not exist'}")
        for name, known in self.fingerprints:
            if fingerprint(name) not in known:
                raise UpstreamDiffers(f"the source of {name} has changed, to {fingerprint(name)}")
        return owner, None if self.adds else getattr(owner, self.attribute)

    @property
    def problem(self) -> str:
        """Why it does not fit what is installed, as a sentence; "" if it fits."""
        try:
            self.find()
        except UpstreamDiffers as difference:
            return (
                f"patch {self.name!r} was made for {self.package} {' or '.join(self.versions)} and does not fit "
                f"{self.package} {self.installed}: {difference}"
            )
        return ""


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
    """The first 64 bits of the SHA-256 of the source of a function, property or class, by its dotted name; hexadecimal.

    Raises:
        UpstreamDiffers: it does not exist, or has no source.
    """
    thing = resolve(name)
    try:
        return hashlib.sha256(_normalise(thing).encode()).hexdigest()[:16]
    except (OSError, TypeError, SyntaxError) as error:  # a lambda may stand anywhere in a line
        raise UpstreamDiffers(f"the source of {name} cannot be read ({error})") from error


@functools.cache  # of the very object: what takes its place under the same name is read again
def _normalise(thing: Any) -> str:
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


@contextmanager
def replace_attribute(owner: Any, name: str, value: object, *, adds: bool = False) -> Iterator[None]:
    """While inside, the attribute is `value`. Afterwards the owner is as it was.

    Args:
        owner: a module or a class.
        name: the attribute, which the owner has itself or inherits.
        value: what it is while inside.
        adds: the owner must not have the attribute: it is added.

    Raises:
        AttributeError: the owner lacks the attribute; with `adds`, it has it.
    """
    if hasattr(owner, name) is adds:
        raise AttributeError(f"{owner!r} has {'already an' if adds else 'no'} attribute {name!r}")
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


VARIABLE = "ETHOS_HIL_PATCHES"
_bare: list[str] = []
"""Why this process lowers bare, in a list of one; empty as long as nothing is known against it."""


class UpstreamUnfit(ToolError):
    """What is installed is not what the patches that change results were made for: it can be lowered with bare."""


def go_bare(why: str) -> None:
    """Have this process lower with ExecuTorch's public functions alone from now on (`ethos_hil.lowering.bare`).

    Args:
        why: a sentence, which artifacts get as a note.
    """
    _bare[:] = [why]


def bare() -> str:
    """Return why this process lowers bare; "" if it does not."""
    return _bare[0] if _bare else f"{VARIABLE}=bare" if _asked() == "bare" else ""


def depth() -> str:
    """Return how upstream is used, as the versions of an artifact say it: "on" with patches, "off" or "bare" without.

    Raises:
        UsageError: ETHOS_HIL_PATCHES has a value that means nothing.
    """
    return "bare" if bare() else "on" if patches_on() else "off"


def require_fitting(patches: Sequence[Patch]) -> None:
    """Check that all patches that change results fit what is installed. With ETHOS_HIL_PATCHES=off all do.

    Raises:
        UpstreamUnfit: one does not; the message names each.
    """
    problems = [problem for patch in patches if patch.changes_result and patches_on()
                for problem in [patch.problem] if problem]  # fmt: skip
    if problems:
        raise UpstreamUnfit(problems[0] if len(problems) == 1 else f"{problems[0]} (and {len(problems) - 1} more)")


def patches_on() -> bool:
    """Whether upstream may be patched. It may, unless ETHOS_HIL_PATCHES is "off" or "bare".

    Raises:
        UsageError: the variable has a value that means nothing.
    """
    return _asked() not in ("off", "bare")


def _asked() -> str:
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "on", "off", "bare"):
        raise UsageError(f"{VARIABLE} is {value!r}", hint='set it to "off" or "bare", or leave it unset')
    return value


_inside: set[Patch] = set()
"""The patches that are in place."""
_warned: set[Patch] = set()


@contextmanager
def apply(patches: Sequence[Patch], *arguments: Any) -> Iterator[None]:
    """While inside, the patches are in place. Afterwards upstream is as it was.

    Those that are in place already stay as they are. With ETHOS_HIL_PATCHES=off none is put in place. Of a patch that
    only saves time and does not fit what is installed, a RuntimeWarning says so once a process, and upstream's own way
    is taken.

    Args:
        patches: rows of the table.
        arguments: what `Patch.make` of each takes apart from upstream's value.

    Raises:
        UpstreamUnfit: a patch that changes results does not fit what is installed.
        UsageError: ETHOS_HIL_PATCHES has a value that means nothing.
    """
    with ExitStack() as stack:
        for patch in patches if patches_on() else ():
            if patch in _inside:
                continue
            try:
                owner, own = patch.find()
            except UpstreamDiffers:
                _does_not_fit(patch)
                continue
            value = patch.make(own, *arguments)
            stack.enter_context(replace_attribute(owner, patch.attribute, value, adds=patch.adds))
            _inside.add(patch)
            stack.callback(_inside.discard, patch)
        yield


def _does_not_fit(patch: Patch) -> None:
    if patch.changes_result:
        raise UpstreamUnfit(
            patch.problem,
            hint=f"install {patch.package} {patch.versions[-1]} (make setup), or set {VARIABLE}=off to do without all "
            "patches",
        )
    if patch not in _warned:
        _warned.add(patch)
        warnings.warn(f"{patch.problem}; without it, lowering only takes longer", RuntimeWarning, stacklevel=4)
