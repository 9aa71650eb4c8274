// Kernels that make a tensor out of numbers: full (sizes, value), full_like (like, value, memory_format), zeros and
// ones (sizes), fill.Scalar (like, value), scalar_tensor (value), arange (end) and arange.start (start, end, step),
// each followed by its output, twice. A value that does not fit the output's type is rejected.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void full(const Arguments& arguments);
void full_like(const Arguments& arguments);
void zeros(const Arguments& arguments);
void ones(const Arguments& arguments);
void scalar_tensor(const Arguments& arguments);
void arange(const Arguments& arguments);
void arange_start(const Arguments& arguments);

}  // namespace ethos_hil
