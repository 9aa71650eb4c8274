// Kernels along one dimension of a tensor in any dim_order: cumsum (input, dimension, dtype or none, out, out), of any
// types; sort.values (input, dimension, descending, values, indices, results) and topk.values (input, k, dimension,
// largest, sorted, values, indices, results), of any type.
//
// NaN is larger than everything, and equal elements keep their order, as in torch. Upstream has no kernel for sort, and
// its topk does not define the order of equal elements. topk needs no extra memory, but takes time proportional to k
// times the dimension.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void cumsum(const Arguments& arguments);
void sort(const Arguments& arguments);
void topk(const Arguments& arguments);

}  // namespace ethos_hil
