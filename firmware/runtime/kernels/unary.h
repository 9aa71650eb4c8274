// Functions of one number: abs, neg, relu, sign, ceil, floor, trunc, round, reciprocal, sqrt, rsqrt, exp, log, log2,
// log10, sin, cos, tanh, erf, sigmoid and gelu (input, "none" or "tanh").
//
// Functions that are not exact are computed in double and rounded once (rounded.h); docs/kernels.md and
// tests/kernel_calls.py have their error bounds. For doubles there are only the exact ones. As upstream's, ceil,
// floor and trunc of integers pass through float.
#pragma once

#include "runtime/kernels/elementwise.h"

namespace ethos_hil {

extern const Operation ABS;
extern const Operation NEGATE;
extern const Operation RELU;
extern const Operation SIGN;
extern const Operation CEIL;
extern const Operation FLOOR;
extern const Operation TRUNC;
extern const Operation ROUND;
extern const Operation RECIPROCAL;
extern const Operation SQRT;
extern const Operation RSQRT;
extern const Operation EXP;
extern const Operation LOG;
extern const Operation LOG2;
extern const Operation LOG10;
extern const Operation SIN;
extern const Operation COS;
extern const Operation TANH;
extern const Operation ERF;
extern const Operation SIGMOID;

void gelu(const Arguments& arguments);

}  // namespace ethos_hil
