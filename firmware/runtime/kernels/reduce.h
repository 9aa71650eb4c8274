// Kernels that reduce many elements to one, of any type and in any dim_order. `dimensions` are a list, or none for all;
// `keep` tells whether the reduced dimensions stay, with size 1. Each is followed by its output, twice: sum.IntList and
// mean (input, dimensions, keep, dtype), mean.dtype and prod (input, dtype), prod.int (input,
// dimension, keep, dtype), amax, amin and any.dims (input, dimensions, keep),
// any (input, dimension, keep), any.all, max.unary and min.unary (input). argmax and argmin (input, dimension or none,
// keep) give LONG. max.dim and min.dim (input, dimension, keep) have two outputs, values and indices, followed by both
// as a list.
//
// Results are those of ExecuTorch's portable kernels (kernels/portable/cpu/util/reduce_util.h): one accumulator of the
// output's type (float for half and bfloat16), the last dimension fastest. A sum over the last dimension alone starts
// with 0, others with their first element; that matters where all elements are -0.0. Of equal extremes the first one
// wins. Products are of floats, doubles and integers.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void sum(const Arguments& arguments);
void mean(const Arguments& arguments);
void mean_all(const Arguments& arguments);
void product(const Arguments& arguments);
void product_all(const Arguments& arguments);
void largest(const Arguments& arguments);
void smallest(const Arguments& arguments);
void largest_all(const Arguments& arguments);
void smallest_all(const Arguments& arguments);
void any(const Arguments& arguments);
void any_all(const Arguments& arguments);
void argmax(const Arguments& arguments);
void argmin(const Arguments& arguments);
void max_along(const Arguments& arguments);
void min_along(const Arguments& arguments);

}  // namespace ethos_hil
