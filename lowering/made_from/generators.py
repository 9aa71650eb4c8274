"""The common generators of random numbers of torch, NumPy and Python: whether code draws from one before it seeds it.

A new process gives each of them a seed of its own. What is drawn then differs from run to run. A generator that code
seeds gives the same numbers in every run. So the state at the beginning is kept: where it is another one when the
generator is seeded for the first time, or at the end, numbers were drawn without a seed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SEEDS = frozenset({"manual_seed", "seed", "set_state", "setstate"})
"""Names of the functions, written in C, that give a generator another state."""
DRAWS = frozenset({"random", "getrandbits"})
"""Names of the functions, written in C, that draw from Python's."""


class _Generator:
    """A generator whose state is watched.

    Attributes:
        seed: what gives it a seed, for people.
        drawn: whether code drew from it without a seed.
    """

    def __init__(self, seed: str, state: Callable[[], object]) -> None:
        self.seed = seed
        self.drawn = False
        self._state = state
        self._first = state()
        self._known = False
        """Whether its state follows from what the code says."""

    def before_seed(self) -> None:
        """Note that it is about to be seeded."""
        self.drawn |= not self._known and self._state() != self._first

    def after_seed(self, *, known: bool) -> None:
        """Note that it was seeded: by what the code says, or by chance. Code may also restore the first state."""
        self.drawn |= not known
        self._known = self._state() != self._first

    def after_draw(self) -> None:
        """Note that a draw decides nothing."""
        if not self._known:
            self._first = self._state()

    def end(self) -> None:
        """Note that no more code is watched."""
        self.before_seed()


class CommonGenerators:
    """The generators of those of torch, NumPy and Python that are imported."""

    def __init__(self) -> None:
        self._found: dict[int, _Generator] = {}
        python = getattr(random.seed, "__self__", None)
        if python is not None:
            self._found[id(python)] = _Generator("random.seed", random.getstate)
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            own = torch.default_generator
            self._found[id(own)] = _Generator("torch.manual_seed", lambda: own.get_state().numpy().tobytes())
        self._numpy: Any = sys.modules.get("numpy.random")
        if self._numpy is not None:
            self._found[id(self._numpy)] = _Generator("numpy.random.seed", lambda: repr(self._numpy.get_state(False)))

    def hear(self, event: str, name: str, owner: object) -> None:
        """Take a call of one of SEEDS, as a profile function gets it."""
        watched = self._found.get(id(owner))
        if watched is None:
            return
        if event == "c_call":
            watched.before_seed()
        elif event == "c_return":
            watched.after_seed(known=not (name == "seed" and owner is not getattr(random.seed, "__self__", None)))

    def drawn_for_a_package(self, event: str, owner: object) -> None:
        """Take a call of one of DRAWS by an installed package that is being imported: no model is made of it."""
        watched = self._found.get(id(owner))
        if watched is not None and event == "c_call":
            watched.before_seed()
        elif watched is not None:
            watched.after_draw()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Also hear of NumPy's functions, whose calls no profile function gets."""
        if self._numpy is None:
            yield
            return
        watched, seed, restore = self._found[id(self._numpy)], self._numpy.seed, self._numpy.set_state

        def seeded(*arguments: Any, **named: Any) -> None:
            watched.before_seed()
            seed(*arguments, **named)
            watched.after_seed(known=bool(named or arguments) and arguments != (None,))

        def restored(*arguments: Any, **named: Any) -> None:
            watched.before_seed()
            restore(*arguments, **named)
            watched.after_seed(known=True)

        self._numpy.seed, self._numpy.set_state = seeded, restored
        try:
            yield
        finally:
            self._numpy.seed, self._numpy.set_state = seed, restore

    def unseeded(self) -> Iterator[str]:
        """Return the seeds that are missing, such as "torch.manual_seed", once no more code is watched."""
        for each in self._found.values():
            each.end()
            if each.drawn:
                yield each.seed
