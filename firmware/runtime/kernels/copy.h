// Kernels that move elements without computing:
// _to_dim_order_copy.out and _clone_dim_order.out (input, non_blocking, dim_order, out, out): the element type and the
// layout become those of `out`; clone.out (input, memory_format, out, out); view_copy.out (input, sizes, out, out);
// unsqueeze_copy.out (input, dimension, out, out); squeeze_copy.dims_out (input, dimensions, out, out).
// Conversions are those of C++; where that leaves floats undefined (NaN, out of range), NaN becomes 0 and the rest
// saturates.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void to_dim_order_copy(const Arguments& arguments);
void clone(const Arguments& arguments);
void view_copy(const Arguments& arguments);
void unsqueeze_copy(const Arguments& arguments);
void squeeze_copy(const Arguments& arguments);

}  // namespace ethos_hil
