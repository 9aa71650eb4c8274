"""How far apart two right answers to the same program may be: a running error analysis, element by element.

`ethos_hil.suites.trial.verify_against_pytorch` compares two answers: tosa_reference_model's to a lowered program, and
PyTorch's to the module that was lowered. They may differ, because they round at different places. The analysis follows
every tensor of the program with its value and a bound on its error (`value.Bounded`). Each operator passes on its
inputs' errors as its own mathematics does, and adds the error of its own rounding. The result bounds the difference of
the answers. Where nothing rounds, as in all movement of data, the bound is 0 and the answers must be equal.

**Float programs** (profile MI). The value is the one of exact arithmetic, in float64. An operator may add the error
that section "Precision Requirements" of its page in the TOSA 1.0 specification allows (`elementwise`, `sums`): half an
ulp for ADD, 5 for ERF, and so on; for a sum of n products 2n roundings of the sum of their magnitudes ("Dot product
accuracy requirements"). Three allowances exist for hardware that interpolates tables, and would hide mistakes: SIN, COS
and RESIZE get the accuracy of the reference model's own method instead. PyTorch computes in float64, whose rounding is
2**-29 of that and negligible. Where it can't, it computes in float32 with operators as accurate as TOSA requires, so
that each may add as much again (`value.RoundingPolicy`). The compiler rounded constants to float32
(`value.of_constant`) and approximates some functions (`program.APPROXIMATED`).

**Quantised programs** (profile BI). The value is the integer that the reference model computes. PyTorch computes the
same in float32 from dequantised integers, and rounds to an integer where its graph has a quantise node. At each of
these nodes the compiler put a RESCALE to 8 or 16 bits (or a TABLE, or an average pool). There both answers round nearly
the same real number; it differs by earlier errors: PyTorch's float32 roundings, and RESCALEs to 32 bits, where only the
program rounds. So both give the same integer, except where a rounding boundary lies within that error: there, and only
there, the result may differ by one step (`value.snap`). The operators' own gains pass that step on.

Nothing is assumed about how errors combine: bounds are for the worst case, as long as that is tight (`tolerance`). An
operator that has no rule raises an error that names it.
"""
