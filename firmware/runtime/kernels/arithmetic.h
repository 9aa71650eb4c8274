// Operations on numbers: aten::add, sub (input, other, alpha), mul, div, div with a rounding mode, fmod, remainder,
// pow, atan2, maximum, minimum, clamp (input, lower or none, upper or none), and the bitwise ones. `other` is a tensor
// or a number, in every overload.
//
// Integers wrap as in upstream's type. Results are those of the portable kernels. Their remainder of integers has the
// sign of the dividend (torch's has the divisor's), and their remainder of doubles is computed as float. One
// difference: in mode "trunc" the portable kernels divide 64-bit integers as doubles, which loses quotients beyond
// 2^53; this firmware does not.
#pragma once

#include "runtime/kernels/elementwise.h"

namespace ethos_hil {

extern const Operation ADD;
extern const Operation SUBTRACT;
extern const Operation MULTIPLY;
extern const Operation DIVIDE;
extern const Operation FMOD;
extern const Operation REMAINDER;
extern const Operation POWER;
extern const Operation ATAN2;
extern const Operation MAXIMUM;
extern const Operation MINIMUM;
extern const Operation BITWISE_AND;
extern const Operation BITWISE_OR;
extern const Operation BITWISE_XOR;
extern const Operation HARDTANH;
extern const Operation LEAKY_RELU;

// div.out_mode and div.Scalar_mode_out: (input, other, none or "trunc" or "floor", out, out).
void divide_mode(const Arguments& arguments);
void bitwise_not(const Arguments& arguments);
void clamp(const Arguments& arguments);
// where.self_out: (condition, input, other, out, out).
void where(const Arguments& arguments);

}  // namespace ethos_hil
