"""Which versions a user asks for, and which of them there are.

`ethos-u-vela=4.4..5.2` is the newest release of each minor version from 4.4 to 5.2; `=4.4.1,5.0.0,5.1.0` are these
three. Parts are separated by commas. A version in full names one release, one of two numbers the newest of its minor
version; at the ends of a range they bound it in the same way, and an end in full is scanned in any case. A range that
ends in dots goes on to the newest release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import VELA
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.subjects.subject import PACKAGES

if TYPE_CHECKING:
    from packaging.version import Version


_EXAMPLE = f"--over {VELA}=4.4..5.2"
_NUMBERS = re.compile(r"\d+(\.\d+)+[A-Za-z0-9.+]*")
_FULL = 3


@dataclass(frozen=True)
class VersionSpan:
    """A part of what is asked: one version, or a range.

    Attributes:
        text: as the user gave it.
        first: a version, of two numbers or in full.
        last: the end of a range, "" for the newest; None for a single version.
    """

    text: str
    first: str
    last: str | None = None


@dataclass(frozen=True)
class WantedVersions:
    """The versions of a package that a user asks for: the argument of `--over`."""

    package: str
    spans: tuple[VersionSpan, ...]

    @classmethod
    def parse(cls, text: str) -> WantedVersions:
        """Read `PACKAGE=VERSIONS`.

        Raises:
            UsageError: the package cannot be scanned, or a part is neither a version nor a range, or runs backwards.
        """
        package, equals, versions = text.partition("=")
        if package not in PACKAGES:
            raise UsageError(
                f"--over {text}: {package!r} is not a package to scan over",
                hint=f"{did_you_mean(package, PACKAGES)}there are {', '.join(PACKAGES)}, wheels, commits, python, path "
                f"and here; as in {_EXAMPLE}",
            )
        if not equals or not versions.strip():
            raise UsageError(f"--over {text} names no versions", hint=f"as in {_EXAMPLE}")
        return cls(package, tuple(_span(text, part.strip()) for part in versions.split(",")))

    @property
    def named(self) -> tuple[str, ...] | None:
        """The versions, if each of them is named in full; else None, and `resolve` has to know the releases."""
        if any(span.last is not None or not _is_full(span.first) for span in self.spans):
            return None
        return _sort(span.first for span in self.spans)

    def resolve(self, released: Sequence[str]) -> tuple[str, ...]:
        """Return the versions, the oldest first.

        Args:
            released: all releases.

        Raises:
            UsageError: a version that is named is not released, or nothing in a range is.
        """
        known = sorted(map(_version, released))
        return _sort(version for span in self.spans for version in self._of(span, known))

    def _of(self, span: VersionSpan, known: Sequence[Version]) -> list[str]:
        if span.last is None:
            matches = [version for version in known if _within(version, span.first, span.first)]
            if not matches:
                near = [str(version) for version in known if version.release[:1] == _version(span.first).release[:1]]
                raise UsageError(
                    f"{self.package} has no release {span.first}",
                    hint=f"there are {', '.join(near or map(str, known[-_FULL:]))}",
                )
            return [str(matches[-1])]
        matches = [version for version in known if _within(version, span.first, span.last)]
        if not matches:
            raise UsageError(
                f"--over {self.package}={span.text}: no release lies in this range",
                hint=f"the newest is {known[-1]}" if known else None,
            )
        for end in filter(_is_full, (span.first, span.last)):
            if _version(end) not in matches:
                raise UsageError(
                    f"{self.package} has no release {end}, where {span.text} ends",
                    hint=f"in the range are {', '.join(map(str, matches))}",
                )
        newest = {version.release[:2]: version for version in matches}  # in order: the last of a minor version stays
        named = {_version(end) for end in (span.first, span.last) if _is_full(end)}
        return [str(version) for version in matches if version in newest.values() or version in named]


def _span(text: str, part: str) -> VersionSpan:
    first, dots, last = part.partition("..")
    if not all(map(_is_version, (first, *((last,) if last else ())))):
        raise UsageError(
            f"--over {text}: {part!r} is neither a version nor a range of versions",
            hint=f"give versions such as 5.1 or 5.1.0, separated by commas, or a range: {_EXAMPLE}",
        )
    if last and _version(last) < _version(first) and not _within(_version(first), last, last):
        raise UsageError(f"--over {text}: {part} runs backwards", hint=f"give the older version first: {last}..{first}")
    return VersionSpan(part, first, last if dots else None)


def _is_version(text: str) -> bool:
    if not _NUMBERS.fullmatch(text):
        return False
    from packaging.version import InvalidVersion

    try:
        _version(text)
    except InvalidVersion:
        return False
    return True


def _version(text: str) -> Version:
    from packaging.version import Version  # a late import: `--help` does without

    return Version(text)


def _is_full(text: str) -> bool:
    return bool(text) and len(_version(text).release) >= _FULL


def _within(version: Version, first: str, last: str) -> bool:
    """Return whether a version is not before the first and not after the last. A last one of two numbers is a minor
    version with all its releases; "" sets no limit.
    """
    if version < _version(first):
        return False
    if not last:
        return True
    end = _version(last)
    return version <= end if _is_full(last) else version.release[: len(end.release)] <= end.release


def _sort(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(str, sorted({_version(version) for version in versions})))
