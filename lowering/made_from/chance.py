"""Clocks and random numbers: they decide a result, and no digest of a file tells.

Python reports neither. So calls in a module's own statements are found in its source, and calls while a model is built
by a profile function, which sees the functions written in C that Python code calls.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import posix
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from ethos_hil.lowering.made_from.project_files import Owner, owner_of

# The common generators of random numbers of torch, NumPy and Python: whether code draws from one before it seeds it.
#
# A new process gives each of them a seed of its own. What is drawn then differs from run to run. A generator that code
# seeds gives the same numbers in every run. So the state at the start is kept: where it is another one when the
# generator is seeded for the first time, or at the end, numbers were drawn without a seed.

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

    def note_draw_of_package(self, event: str, owner: object) -> None:
        """Take a call of one of DRAWS by an installed package that is being imported: no model is made of it."""
        watched = self._found.get(id(owner))
        if watched is not None and event == "c_call":
            watched.before_seed()
        elif watched is not None:
            watched.after_draw()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Also hear of NumPy's functions, whose calls no profile function gets."""
        if self._numpy is None:
            yield
            return
        watched, seed, restore = self._found[id(self._numpy)], self._numpy.seed, self._numpy.set_state

        def on_seed(*arguments: Any, **named: Any) -> None:
            watched.before_seed()
            seed(*arguments, **named)
            watched.after_seed(known=bool(named or arguments) and arguments != (None,))

        def on_restore(*arguments: Any, **named: Any) -> None:
            watched.before_seed()
            restore(*arguments, **named)
            watched.after_seed(known=True)

        self._numpy.seed, self._numpy.set_state = on_seed, on_restore
        try:
            yield
        finally:
            self._numpy.seed, self._numpy.set_state = seed, restore

    def find_unseeded(self) -> Iterator[str]:
        """Return the seeds that are missing, such as "torch.manual_seed", once no more code is watched."""
        for state in self._found.values():
            state.end()
            if state.drawn:
                yield state.seed


_CLOCKS = frozenset({
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.strftime",
    "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow", "datetime.date.today",
})  # fmt: skip
_ENTROPY = frozenset({"os.urandom", "os.getrandom", "random.SystemRandom", "uuid.uuid1", "uuid.uuid4"})
_SEEDED_BY_ARGUMENT = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState"})
_SEEDS = {"random": "random.seed", "numpy.random": "numpy.random.seed", "torch": "torch.manual_seed"}
"""What seeds the common generator of a module."""
_TORCHS_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like"})
_NO_DRAWS = frozenset({"seed", "Generator", "PCG64", "SeedSequence", "get_state", "getstate", "set_state", "setstate"})
_IN_C = frozenset({"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "now", "today", "utcnow", "urandom",
                   "getrandom", "stat", "from_file"})  # fmt: skip


def requests_of_statements(tree: ast.Module) -> frozenset[str]:
    """Return what a module's statements ask for when it is imported, as ends of sentences. Its functions are left out.

    Args:
        tree: its source.
    """
    names: dict[str, str] = {}
    calls: dict[str, bool] = {}
    waiting: list[ast.AST] = [tree]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or bound] = bound
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            name = _dotted_name(node.func, names)
            calls[name] = calls.get(name, True) and bool(node.args or node.keywords)
        waiting += ast.iter_child_nodes(node)
    return frozenset(filter(None, (_call_of(name, given, calls.keys()) for name, given in calls.items())))


def _dotted_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of a function, or "" if it is not that of an imported module."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


def _call_of(name: str, given: bool, called: Collection[str]) -> str | None:
    """Return what a call asks for, or None.

    Args:
        name: the function's full name.
        given: whether it has arguments, in every call.
        called: the names of all functions that the module's statements call.
    """
    if name in _CLOCKS:
        return f"asks for the time ({name})"
    if name in _ENTROPY or name.startswith("secrets.") or (name in _SEEDED_BY_ARGUMENT and not given):
        return f"draws random numbers without a seed ({name})"
    seed = _SEEDS.get(_generator(name))
    return f"draws random numbers without {seed} ({name})" if seed is not None and seed not in called else None


def _generator(name: str) -> str:
    """Return the module from whose common generator a function draws, or ""."""
    owner, _, last = name.rpartition(".")
    if owner in ("random", "numpy.random") and name not in _SEEDED_BY_ARGUMENT and last not in _NO_DRAWS:
        return owner
    layer = owner == "torch.nn" and last[:1].isupper()  # with random weights
    return "torch" if layer or (owner == "torch" and last in _TORCHS_DRAWS) else ""


class Listener(Protocol):
    """Is told what code asks for."""

    def on_ask(self, what: str) -> None:
        """Note that it asks for the time, or for random numbers: the end of a sentence."""

    def on_state(self, value: object) -> None:
        """Note that it asks for the state of a file of this name, if it is a name."""

    def on_give(self, value: object) -> None:
        """Note that it gives this to a function of an installed package."""


@contextlib.contextmanager
def calls_noticed(listener: Listener, generators: CommonGenerators | None = None) -> Iterator[None]:
    """Notice what Python code asks for inside the block. Where a profiler is at work, nothing is noticed.

    Args:
        listener: told of it.
        generators: told of each seed.
    """
    if sys.getprofile() is not None:
        yield
        return

    def hear(frame: FrameType, event: str, function: object) -> None:
        if event == "call":
            caller = frame.f_back
            if (
                caller is not None
                and owner_of(caller.f_code.co_filename)[0] is Owner.PROJECT
                and owner_of(frame.f_code.co_filename)[0] is Owner.PACKAGE
            ):
                for value in list(frame.f_locals.values()):
                    listener.on_give(value)
            return
        name = getattr(function, "__name__", "") if event[:2] == "c_" else ""
        if generators is not None and name in SEEDS:
            generators.hear(event, name, getattr(function, "__self__", None))
        elif generators is not None and name in DRAWS and _package_is_imported(frame):
            generators.note_draw_of_package(event, getattr(function, "__self__", None))
        if event != "c_call" or name not in _IN_C or frame.f_globals.get("__name__") == "logging":
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, type) and issubclass(owner, datetime.date):
            listener.on_ask(f"asks for the time (datetime.{owner.__name__}.{name})")
        elif owner is time:
            listener.on_ask(f"asks for the time (time.{name})")
        elif owner is posix and name == "stat":
            for value in list(frame.f_locals.values()):
                listener.on_state(value)
        elif name == "from_file":
            listener.on_ask("uses torch.from_file, which reads files unseen")
        elif owner is posix:
            listener.on_ask(f"draws random numbers without a seed (os.{name})")

    sys.setprofile(hear)
    try:
        yield
    finally:
        sys.setprofile(None)


def _package_is_imported(frame: FrameType | None) -> bool:
    """Return whether a frame works for an installed package that is being imported, not for the project."""
    while frame is not None:
        owner, _ = owner_of(frame.f_code.co_filename)
        if owner is Owner.PROJECT:
            return False
        if owner is Owner.PACKAGE and frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False
