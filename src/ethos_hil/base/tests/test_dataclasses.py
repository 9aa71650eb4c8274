"""The dataclasses of ethos_hil.base.dataclasses are those of the standard library, which is the oracle."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from ethos_hil.base import dataclasses as ours


def _classes(dataclass: Any) -> list[type]:
    @dataclass(frozen=True)
    class Base:
        values: int
        name: str = "a"
        parts: list[int] = dataclasses.field(default_factory=list, hash=False)
        seen: int = dataclasses.field(default=3, compare=False, repr=False)
        made: str = dataclasses.field(default_factory=str, init=False)
        kinds: ClassVar[int] = 3

        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.values

        def __post_init__(self) -> None:
            if self.values < 0:
                raise ValueError("less than 0")

    @dataclass(frozen=True, kw_only=True)
    class Derived(Base):
        more: float | None = None

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Derived) and self.values == other.values

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, eq=False)
    class One:
        values: int

    return [Base, Derived, One]


def _behaviour(cls: Any) -> list[Any]:
    """Return all that can be seen of a class with a first field `values`."""
    results: list[Any] = [
        inspect.signature(cls), cls.__match_args__, cls.__dataclass_params__.frozen,
        [(part.name, part.type, part.kw_only) for part in dataclasses.fields(cls)],
    ]  # fmt: skip
    one, other = cls(1), cls(2)
    actions: tuple[Callable[[], object], ...] = (
        lambda: (repr(one), repr(other)), lambda: (one == cls(1), one == other, one == 1, one != cls(1)),
        lambda: (hash(one) == hash(cls(1)), hash(one) == hash(other)), lambda: dataclasses.replace(one, values=5),
        lambda: dataclasses.asdict(one), lambda: one.twice, lambda: cls(-1), lambda: cls(), lambda: cls(1, 2, [], 3, 4),
        lambda: setattr(one, "values", 2), lambda: setattr(one, "new", 2), lambda: delattr(one, "values"),
        lambda: one.values, lambda: one.parts is other.parts,
        lambda: dataclasses.dataclass(frozen=False)(type("Thawed", (cls,), {})),
    )  # fmt: skip
    for action in actions:
        try:
            results.append(action())
        except Exception as error:
            results.append((type(error), str(error)))
    return results


@pytest.mark.parametrize("number", range(3))
def test_a_class_is_as_the_standard_library_would_make_it(number: int) -> None:
    made, expected = _classes(ours.dataclass)[number], _classes(dataclasses.dataclass)[number]
    assert [str(part) for part in _behaviour(made)] == [str(part) for part in _behaviour(expected)]
