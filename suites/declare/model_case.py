"""What a model's test says of itself, as data: neither torch nor the model is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ethos_hil.lowering.scheme import Scheme


@dataclass(frozen=True)
class Model:
    """A network: one test per profile, `test_<name>_<profile>`.

    Attributes:
        name: as people call it.
        factory: what makes it, "package.module:function" as on the command line: text, so that nothing is imported.
        scheme: how it is quantised.
        profiles: of the tests; by default all.
        on_cpu: by profile name, the kernels beside quantising and dequantising that are left to the CPU there, each
            with the reason. It is asserted that these are, and no others.
        delegates: by profile name, how many parts are delegated where it is not one.
        scratch: bytes of working memory beyond which a compiled program has become too large, in every NPU profile.
        requires: packages of the extra `models` that making it imports: without them its tests are skipped.
        slow: profiles whose test takes more than ten seconds even when the model is lowered already.
    """

    name: str
    factory: str
    scheme: Scheme = "a8w8"
    profiles: tuple[str, ...] = ("MI", "BI", "U55_BI", "U65_BI", "U85_BI")
    on_cpu: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    delegates: Mapping[str, int] = field(default_factory=dict)
    scratch: int | None = None
    requires: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
