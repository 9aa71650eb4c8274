"""Break something in a session of pytest, `-p ethos_hil.suites.tests.sabotage`; the variable SABOTAGE names it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "SABOTAGE"
MISSING = "raise ImportError('no such library')\n"
UNPREDICTABLE = """
import importlib, sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))
here = sys.modules.pop(__name__)
real = importlib.import_module(__name__)
sys.modules[__name__] = here
GraphStatus = real.GraphStatus

def run(*arguments):
    return real.run(*arguments)[0], GraphStatus.TOSA_UNPREDICTABLE
"""
"""Computes as the real one does, and says that it is not valid."""


def pytest_configure(config: pytest.Config) -> None:
    """Break it, in each of the session's processes."""
    _BREAKERS[os.environ[VARIABLE]]()


def _compiler_raises() -> None:
    def missing(*_: object, **__: object) -> bytes:
        raise FileNotFoundError("the compiler")

    _replace_compilers(missing, missing)


def _compiler_returns_zeros() -> None:
    from executorch.backends.arm.arm_vela import VelaCompileResult
    from executorch.exir.backend.backend_details import PreprocessResult

    _replace_compilers(
        lambda *_, **__: VelaCompileResult(bytes(64)), lambda *_, **__: PreprocessResult(processed_bytes=bytes(64))
    )


def _replace_compilers(vela: Any, tosa: Any) -> None:
    """Replace Vela, which makes the blob of the NPU profiles, and the maker of the other profiles' TOSA."""
    from executorch.backends.arm.ethosu import backend
    from executorch.backends.arm.tosa.backend import TOSABackend

    backend.vela_compile = vela
    TOSABackend.preprocess = staticmethod(tosa)


def _no_reference() -> None:
    """Have the worker of the reference model find a module that cannot be imported: it gets this process's path."""
    broken = contextlib.ExitStack()
    atexit.register(broken.close)
    folder = broken.enter_context(tempfile.TemporaryDirectory())
    broken.enter_context(reference_model_is(MISSING, Path(folder)))


@contextlib.contextmanager
def reference_model_is(text: str, folder: Path) -> Iterator[None]:
    """While inside, the reference model is a module with this text, which is written into `folder`."""
    from ethos_hil.lowering.native.worker import REFERENCE_MODEL

    (folder / "tosa_reference_model.py").write_text(text)
    REFERENCE_MODEL.stop()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        REFERENCE_MODEL.stop()


def _wrong_answer() -> None:
    from ethos_hil.harness.fvp_stand_in.tests.zeros import Zeros
    from ethos_hil.harness.targets.virtual import VirtualTarget

    real = VirtualTarget.__init__
    VirtualTarget.__init__ = functools.partialmethod(real, engine=Zeros)  # type: ignore[assignment, method-assign]


def _harness_raises() -> None:
    from ethos_hil.suites.trial.run_trial import Trial

    def broken(self: Trial) -> None:
        raise ZeroDivisionError("in the harness")

    Trial._gather = broken  # type: ignore[assignment]


def _worker_dies() -> None:
    """Crash the process in the test of the case that is called "same"."""
    from ethos_hil.suites.trial.run_trial import Trial

    real = Trial._gather

    def deadly(self: Trial) -> Any:
        if self.test.name == "plus_same":
            os._exit(3)
        return real(self)

    Trial._gather = deadly  # type: ignore[method-assign]


def _disk_full() -> None:
    """Let no file grow from the first test on: what a session writes before it is small."""
    from ethos_hil.results.store import RunFolder

    real = RunFolder.append

    def full(self: RunFolder, *arguments: Any, **options: Any) -> None:
        size = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, size[1]))
        try:
            real(self, *arguments, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, size)

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    RunFolder.append = full  # type: ignore[method-assign]


_BREAKERS = {
    "disk-full": _disk_full,
    "compiler-raises": _compiler_raises,
    "compiler-zeros": _compiler_returns_zeros,
    "no-reference": _no_reference,
    "wrong-answer": _wrong_answer,
    "harness-raises": _harness_raises,
    "worker-dies": _worker_dies,
}
