"""A shard: the part of a night's work that one of several machines does."""

from __future__ import annotations

import hashlib
import re

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True)
class Shard:
    """One of `count` shards, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that is written as "2/4".

        Raises:
            UsageError: it is not a shard.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text!r} is not a shard", hint="the second of four is 2/4")
        return cls(int(match[1]), int(match[2]))

    def takes(self, *names: str) -> bool:
        """Return whether work with these names is its own. Every machine gives the same answer."""
        digest = hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).digest()
        return int.from_bytes(digest[:8]) % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
