"""In which versions of a package something was seen, and from which on it was gone."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass


@dataclass(frozen=True)
class Sightings:
    """The versions in which a defect, or a need to depart from upstream, was looked for.

    Attributes:
        seen: those that have it.
        gone: those that do not.
    """

    seen: tuple[str, ...]
    gone: tuple[str, ...] = ()

    def include(self, version: str | None) -> bool:
        """Return whether a version is taken to have it.

        A version that was not looked at is taken for the newest one before it that was, or for the oldest of all. What
        cannot be read as a version, or is not installed, is taken to have it.
        """
        if version in self.seen or version in self.gone:
            return version in self.seen
        from packaging.version import InvalidVersion, Version  # late: a version that was looked at needs none

        try:
            wanted = Version(version or "")
        except InvalidVersion:
            return True
        known = sorted((Version(text), text in self.seen) for text in (*self.seen, *self.gone))
        return [known[0][1], *(has for at, has in known if at <= wanted)][-1]
