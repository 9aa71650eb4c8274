// Products of matrices of floats or of integers, in any dim_order, each followed by its output, twice: mm (a, b), bmm
// (a, b) with a batch dimension before, addmm (summand, a, b, beta, alpha), linear (input, weight, bias or none).
//
// One sum, from 0, in the type of the elements, in order; that is upstream's portable kernels, except for linear, of
// which there is only an optimised one. Half and bfloat16, which those add up in themselves, are refused.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void mm(const Arguments& arguments);
void bmm(const Arguments& arguments);
void addmm(const Arguments& arguments);
void linear(const Arguments& arguments);

}  // namespace ethos_hil
