"""The text of a model that writes."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.verdict.run_data import check_text, written_text
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import MODELS, U55


def outcome(*numbers: list[int]) -> Outcome:
    runs = tuple(Run(0, at, (np.zeros(1, np.float32), np.array(values)), ()) for at, values in enumerate(numbers))
    return Outcome(b"", b"", b"", 0, 0, {}, runs, (), {})


def test_it_joins_the_characters_of_all_executions() -> None:
    assert written_text(outcome([72], [105, 10], [8364]), ("logits", "c"), "c") == "Hi\n€"


def test_what_is_no_character_is_replaced_and_no_output_is_no_text() -> None:
    assert written_text(outcome([-1], [0xD800], [0x110000], [65]), ("logits", "c"), "c") == "\ufffd\ufffd\ufffdA"
    assert written_text(outcome([65]), ("logits", "c"), "") == ""
    surrogates = outcome([0], [0xD7FF], [0xD800, 0xDFFF], [0xE000, 0x10FFFF])
    assert written_text(surrogates, ("logits", "c"), "c") == "\0\ud7ff\ufffd\ufffd\ue000\U0010ffff"


def test_an_output_that_cannot_be_text_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    artifact = lower(f"{MODELS}:add", U55, cache=Cache(tmp_path_factory.mktemp("cache")))
    check_text(artifact, "")
    with pytest.raises(UsageError, match="says that its text is the output 'words', and has no such output"):
        check_text(artifact, "words")
    with pytest.raises(UsageError, match=r"says that its text is the output 'output 0', which is float32"):
        check_text(artifact, "output 0")
