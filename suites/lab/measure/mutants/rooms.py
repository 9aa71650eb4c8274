"""The rooms whose code is changed, with the tests nearest to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Room:
    """Sources, and the tests nearest to them.

    Attributes:
        sources: patterns of files.
        tests: files and folders.
        own_cache: whether the code is of `lowering`: what it made before the change must not come from the cache.
        slow: whether slow tests take part, because some of the code runs in these alone.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    own_cache: bool = False
    slow: bool = False

    @property
    def files(self) -> list[str]:
        """The sources, relative to the checkout."""
        paths = (path for pattern in self.sources for path in ROOT.glob(pattern))
        return sorted(path.relative_to(ROOT).as_posix() for path in paths)


_GATE = tuple(
    f"results/tests/test_{name}.py"
    for name in ("gate", "account", "observation", "baseline", "comparison", "cause", "numbers", "pairing")
)
_REPAIRS = ("test_treatments.py", "test_mend.py", "test_hoist_tables.py", "test_shram.py")
_ORACLE = ("test_bounds.py", "test_reference.py", "test_kernels.py", "test_intermediates.py")
_BOUNDS = ("suites/tests/test_bounds_of_integers.py", "firmware/tests/test_oracle.py")

ROOMS: Mapping[str, Room] = MappingProxyType(
    {
        "verdict": Room(
            ("harness/verdict/*.py", "src/ethos_hil/base/verdict.py", "src/ethos_hil/base/judge.py"),
            (
                "harness/verdict/tests",
                "src/ethos_hil/base/tests/test_judge.py",
                "src/ethos_hil/base/tests/test_record.py",
                "harness/tests/test_against_pytorch.py",
                "harness/cli/tests/test_npu.py",
            ),
        ),
        "link": Room(("harness/link/*.py",), ("harness/link/tests",)),
        "image": Room(("harness/image/*.py",), ("harness/image/tests",)),
        "gate": Room(
            ("results/gate/*.py", "src/ethos_hil/base/judge.py"),
            (*_GATE, "harness/nightly/tests/test_judgement.py", "results/export/runs/tests"),
        ),
        "campaign": Room(("harness/campaign/*.py",), ("harness/campaign/tests", "harness/nightly/tests"), slow=True),
        "nightly": Room(("harness/nightly/*.py",), ("harness/nightly/tests",), slow=True),
        "repairs": Room(
            ("lowering/repairs/*.py",),
            (*(f"lowering/tests/{name}" for name in _REPAIRS), "suites/lab/prove/random_models/tests/test_repairs.py"),
            own_cache=True,
        ),
        "oracle": Room(
            ("lowering/oracle/**/*.py",),
            (*(f"lowering/tests/{name}" for name in _ORACLE), *_BOUNDS),
            own_cache=True,
        ),
        "npu/decode": Room(("harness/npu/decode/*.py",), ("harness/npu/tests",)),
        "npu/compute": Room(("harness/npu/compute/*.py",), ("harness/npu/tests",)),
    }
)
