"""Declarations of model tests, as data: neither torch nor the model is imported."""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import Scheme
from ethos_hil.suites.declare.case import PROFILES, check_by_profile, check_profiles


@dataclass(frozen=True)
class Model:
    """A network: one test per profile, `test_<name>_<profile>`.

    Attributes:
        name: its usual name.
        factory: the function that makes it, "package.module:function" as on the command line: text, so that nothing is
            imported.
        scheme: how it is quantised.
        profiles: the profiles of the tests; by default all but the one for the CPU.
        on_cpu: by profile name, the kernels beside quantising and dequantising that run on the CPU there, each with the
            reason. The test asserts that exactly these do.
        delegates: by profile name, the number of delegates where it is not one.
        scratch: the largest allowed working memory of a compiled program in every NPU profile, bytes.
        min_npu_share: the least part of the multiplications that the NPU computes in every NPU profile, such as 0.9.
        requires: packages of the extra `models` that it needs: without them its tests are skipped.
        slow: profiles whose test takes more than ten seconds even when the lowered model is cached.
    """

    name: str
    factory: str
    scheme: Scheme = "a8w8"
    profiles: tuple[str, ...] = PROFILES
    on_cpu: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    delegates: Mapping[str, int] = field(default_factory=dict)
    scratch: int | None = None
    min_npu_share: float | None = None
    requires: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what no test would see. Raises UsageError."""
        owner = f"model {self.name}"
        if not isinstance(self.factory, str) or ":" not in self.factory:
            raise UsageError(
                f"{owner}: {self.factory!r} names no function", hint='give text, "package.module:function"'
            )
        check_profiles(owner, "profiles", self.profiles)
        check_profiles(owner, "slow", self.slow)
        check_by_profile(owner, "on_cpu", self.on_cpu, Mapping)
        check_by_profile(owner, "delegates", self.delegates, int)
