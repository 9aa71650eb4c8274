"""Size expressions: torch's own are accepted, and nothing that computes anything else."""

from __future__ import annotations

import pytest

from ethos_hil.lowering.model.exported.document import RefusedPart, check_expression

SIZE = "Symbol('s77', positive=True, integer=True)"


@pytest.mark.parametrize(
    "text",
    [
        "4", "s0", "s0*s1 + 2", "-3 + s0 // 2", "s0 % 3", SIZE,
        f"Add(FloorDiv(Add({SIZE}, Integer(-3)), Integer(2)), Integer(1))",
        f"TruncToInt(Mul(Float('1.5', precision=53), ToFloat({SIZE})))", f"Pow({SIZE}, Integer(2))",
        "Max(1, Min(s0, 7))",
        "GreaterThan(Symbol('u0', integer=True), Integer(0))", "Rational(1, 2)", f"Mod({SIZE}, Integer(4))",
    ],
)  # fmt: skip
def test_plain_ones_are_accepted(text: str) -> None:
    check_expression(text, "here")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch OWNED')", "().__class__", "s0.free_symbols", "s0[0]", "[s0]", "lambda: 1",
        "s0 if s0 else 1", "10**10000", "2**s0", "Pow(Integer(10), Integer(99999999))", f"Pow({SIZE}, Integer(9))",
        f"Pow(Pow({SIZE}, Integer(8)), Integer(8))", "Integer('1')", "Symbol('__import__')", "Symbol(s0)", "eval('1')",
        "Add(*[1])", "Add(1, evaluate=False)", "Symbol('s0', cls=1)", "Integer(99999999999999999999)", "os", "x", "",
        "1.5", "'1'", "None", "(", "(" * 5000 + ")" * 5000, "-" * 5000 + "1", "s0+" * 2000 + "s0", "s0+" * 5000 + "s0",
        "\x00", "Float('1e99999')", "lambdify(s0)", "Function('f')(s0)", "f'{s0}'", "(s0 := 1)", "1 << 99",
        "factorial(Integer(99999999))",
    ],
)  # fmt: skip
def test_others_are_refused_and_quoted(text: str) -> None:
    with pytest.raises(RefusedPart, match=r"here: (not a plain|a) size expression"):
        check_expression(text, "here")
