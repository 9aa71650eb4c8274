"""How far apart two right answers to the same program may be: a running error analysis, element by element.

Two answers are compared (`ethos_hil.suites.trial.verify_against_pytorch`): tosa_reference_model's to a lowered program,
and PyTorch's to the module that was lowered. They rightly differ, because they round at different places. Every tensor
of the program is followed with its value and a bound on its error (`value.Bounded`): each operator passes on its
inputs' errors as its own mathematics does, and adds what its own rounding may add. What comes out bounds the difference
of the answers. Where nothing rounds, as in all movement of data, the bound is 0 and the answers must be equal.

**Float programs** (profile MI). The value is the one of exact arithmetic, in float64. An operator may add what section
"Precision Requirements" of its page in the TOSA 1.0 specification allows (`elementwise`, `sums`): half an ulp for ADD,
5 for ERF, and so on; a sum of n products 2n roundings of the sum of their magnitudes ("Dot product accuracy
requirements"). Three allowances are made for hardware that interpolates tables, and would hide mistakes: SIN, COS and
RESIZE get what the reference model's own means are good for. PyTorch computes in float64, whose rounding is 2**-29 of
that and vanishes in it; where it can't, it computes in float32 with operators as good as TOSA requires, so that each
may add as much again (`value.Rounding`). Constants were rounded to float32 by the compiler (`value.of_constant`), and
some functions are approximated by it (`approximated`).

**Quantised programs** (profile BI). The value is the integer that the reference model computes. PyTorch computes the
same in float32 from dequantised integers, and rounds to an integer where its graph has a quantise node; the compiler
put a RESCALE to 8 or 16 bits at every one of them (or a TABLE, or an average pool), and there both round the same real
number, but for what was added to it before: PyTorch's float32 roundings, and RESCALEs to 32 bits, where only the
program rounds. So they give the same integer, except where a rounding boundary lies within that doubt: there, and only
there, the error is one step (`value.snapped`). From there it is passed on by the operators' own gains.

Nothing is assumed of how errors combine: bounds are for the worst case, while that is tight
(`tolerance`). An operator that has no rule is an error that names it.
"""
