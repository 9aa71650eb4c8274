// Products of matrices of floats or of integers, in any dim_order, each followed by its output, twice: mm (a, b), bmm
// (a, b) with a batch dimension first, addmm (summand, a, b, beta, alpha), linear (input, weight, bias or none).
//
// One sum, from 0, in the type of the elements, in order. That is how upstream's portable kernels compute, except for
// linear, which upstream has only as an optimised kernel. Half and bfloat16, which upstream sums in those types, are
// refused.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void mm(const Arguments& arguments);
void bmm(const Arguments& arguments);
void addmm(const Arguments& arguments);
void linear(const Arguments& arguments);

}  // namespace ethos_hil
