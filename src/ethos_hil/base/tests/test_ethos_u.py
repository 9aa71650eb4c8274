"""Names of NPUs: the valid ones, and the error for a mistyped one."""

from __future__ import annotations

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU


def test_every_valid_name_parses_to_itself() -> None:
    assert len(EthosU.names()) == 11
    for name in EthosU.names():
        assert str(EthosU.parse(name)) == name
    assert EthosU.parse(" Ethos-U55-128 ") == EthosU.parse("ethos-u55-128")


@pytest.mark.parametrize("name", ["ethos-u55-512", "u55", "", "ethos-u55-12 8", "ethos-u65-128", "cortex-m55"])
def test_an_invalid_name_lists_the_valid_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        EthosU.parse(name)
    assert repr(name) in caught.value.message
    assert caught.value.hint is not None
    for valid in EthosU.names():
        assert valid in caught.value.hint
    assert caught.value.exit_status == 2


def test_config_words_name_the_npu() -> None:
    # 0x1807 and 0x20000118 are in streams Vela made for these two.
    assert EthosU.from_config_word(0x1807) == EthosU.parse("ethos-u55-128")
    assert EthosU.from_config_word(0x20000118) == EthosU.parse("ethos-u85-256")
    assert EthosU.parse("ethos-u55-128").matches(0x1807)
    assert not EthosU.parse("ethos-u55-256").matches(0x1807)
    assert not EthosU.parse("ethos-u85-128").matches(0x1807)
    with pytest.raises(UsageError, match="0x70000007"):
        EthosU.from_config_word(0x70000007)
