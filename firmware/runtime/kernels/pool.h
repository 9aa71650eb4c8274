// Pooling over the last two dimensions of [C, H, W] or [N, C, H, W] floats (a maximum also of int8), in any dim_order:
// avg_pool2d.out (input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override or none, out,
// out) and max_pool2d_with_indices.out (input, kernel_size, stride, padding, dilation, ceil_mode, out, indices,
// results). Lists have one item for both dimensions or one for each; an empty stride is the kernel's size.
//
// Results are those of ExecuTorch's portable kernels (kernels/portable/cpu/util/kernel_ops_util.h). They differ from
// torch's in places: a window starts with its first element inside the input, so -0.0 survives an average and NaN is a
// maximum only where it comes first; a window without an element inside gives 0.
//
// _adaptive_avg_pool2d.out (input, output_size, out, out): windows are as equal as possible, and may overlap.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void avg_pool2d(const Arguments& arguments);
void adaptive_avg_pool2d(const Arguments& arguments);
void max_pool2d_with_indices(const Arguments& arguments);

}  // namespace ethos_hil
