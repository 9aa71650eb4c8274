"""The TOSA that a user may request: only what upstream lowers to and Vela reads; each error names a remedy."""

from __future__ import annotations

from typing import get_args

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.tosa_spec import TosaProfile, TosaSpec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("TOSA-1.0+INT", TosaSpec("1.0", "INT")),
        (" tosa-1.0+fp ", TosaSpec("1.0", "FP")),
        ("TOSA-1.0+INT+int16+cf", TosaSpec("1.0", "INT", ("int16", "cf"))),
        ("TOSA-1.0+FP+BF16", TosaSpec("1.0", "FP", ("bf16",))),
    ],
)
def test_a_specification_is_read_and_written(text: str, spec: TosaSpec) -> None:
    assert TosaSpec.parse(text) == spec
    assert TosaSpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "message", "hinted"),
    [
        ("TOSA-1.1+INT", "asks for TOSA 1.1, which is not supported", "TOSA-1.0+FP, TOSA-1.0+INT"),
        ("TOSA-0.80+BI", "asks for TOSA 0.80, which is not supported", "valid: TOSA-1.0+FP"),
        ("TOSA-2.0+FP", "asks for TOSA 2.0", None),
        ("TOSA-1.0", "names no profile", "TOSA-1.0+INT"),
        ("TOSA-1.0+BI", "names no profile", None),
        ("TOSA-1.0+FP+INT", "names more than one profile", None),
        ("TOSA-1.0+INT+int61", "has no extension 'int61'", "did you mean int16?"),
        ("TOSA-1.0+FP+int16", "has no extension 'int16'", "extensions of FP: bf16"),
        ("1.0+INT", "is not a TOSA specification", None),
        ("", "is not a TOSA specification", None),
    ],
)
def test_what_cannot_be_had_is_refused(text: str, message: str, hinted: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        TosaSpec.parse(text)
    assert message in caught.value.message
    assert repr(text) in caught.value.message
    assert "\n" not in caught.value.message
    assert hinted is None or hinted in (caught.value.hint or "")


def test_a_version_is_refused_however_it_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"'TOSA-1\.1\+INT' asks for TOSA 1\.1, which is not supported"):
        TosaSpec("1.1", "INT")


@pytest.mark.slow
def test_the_tables_are_upstreams() -> None:
    from executorch.backends.arm.tosa.specification import Tosa_1_00, TosaSpecification

    # "u55" is not an extension of TOSA but a mark for programs that an Ethos-U55 can run; --npu requests that.
    upstreams = {
        profile: tuple(name for name in names if name != "u55") for profile, names in Tosa_1_00.valid_extensions.items()
    }
    assert upstreams == TosaSpec.EXTENSIONS
    assert set(Tosa_1_00.available_profiles) == set(get_args(TosaProfile)) == set(TosaSpec.EXTENSIONS)
    versions = {str(version) for version in TosaSpecification._SUPPORTED_VERSIONS}
    assert set(TosaSpec.VERSIONS) < versions, "1.1 is left out on purpose: Vela 5.1 does not read it"
    for profile in get_args(TosaProfile):
        for extension in ("", *TosaSpec.EXTENSIONS[profile]):
            text = f"TOSA-1.0+{profile}" + (f"+{extension}" if extension else "")
            assert str(TosaSpecification.create_from_string(text)) == str(TosaSpec.parse(text)) == text
