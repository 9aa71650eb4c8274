"""What a crew's processes say arrives whole, or not at all."""

from __future__ import annotations

import io

from ethos_hil.base import crew


def test_answers_are_any_values_and_half_of_one_is_none() -> None:
    """A process may be killed while it writes."""
    stream = io.BytesIO()
    values = ["line\n", ("a", 1.5), b"\0" * 70_000, None]
    for value in values:
        crew._send(stream, value)
    whole = stream.getvalue()
    assert list(crew._values(io.BytesIO(whole))) == values
    for length in (0, 3, 8, 9, len(whole) - 1):
        cut = list(crew._values(io.BytesIO(whole[:length])))
        assert cut == values[: len(cut)]
        assert len(cut) < len(values)
