// Operations whose result is a truth value, in an output of any type: eq, ne, lt, le, gt, ge (input, other),
// logical_and, logical_or, logical_xor, logical_not, isnan and isinf. `other` is a tensor or a number, in every
// overload.
#pragma once

#include "runtime/kernels/elementwise.h"

namespace ethos_hil {

extern const Operation EQUAL;
extern const Operation NOT_EQUAL;
extern const Operation LESS;
extern const Operation LESS_EQUAL;
extern const Operation GREATER;
extern const Operation GREATER_EQUAL;
extern const Operation LOGICAL_AND;
extern const Operation LOGICAL_OR;
extern const Operation LOGICAL_XOR;
extern const Operation LOGICAL_NOT;
extern const Operation IS_NAN;
extern const Operation IS_INFINITE;

}  // namespace ethos_hil
