// adaptive_max_pool2d.out (input, output_size, out, indices, results) of [C, H, W] or [N, C, H, W] floats, in any
// dim_order: windows are those of _adaptive_avg_pool2d (pool.h), the first of the largest elements wins, NaN wins
// always, and an index counts the elements of a plane. ExecuTorch has no kernel for it; results are torch's.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void adaptive_max_pool2d(const Arguments& arguments);

}  // namespace ethos_hil
