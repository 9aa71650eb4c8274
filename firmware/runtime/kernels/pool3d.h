// Pooling over the last three dimensions of [C, D, H, W] or [N, C, D, H, W] floats, in any dim_order: avg_pool3d.out
// (input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override or none, out, out),
// max_pool3d_with_indices.out (input, kernel_size, stride, padding, dilation, ceil_mode, out, indices, results),
// _adaptive_avg_pool3d.out (input, output_size, out, out) and adaptive_max_pool3d.out (input, output_size, out,
// indices, results). Lists have one item for all dimensions or one for each; an empty stride is the kernel's size.
//
// ExecuTorch has no kernels for these. Results are those of torch 2.13: sums start with 0, the first of the largest
// elements wins, and the last NaN wins over all. A window without an element inside gives 0 or minus infinity.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void avg_pool3d(const Arguments& arguments);
void max_pool3d_with_indices(const Arguments& arguments);
void adaptive_avg_pool3d(const Arguments& arguments);
void adaptive_max_pool3d(const Arguments& arguments);

}  // namespace ethos_hil
