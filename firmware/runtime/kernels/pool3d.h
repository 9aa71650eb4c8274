// max_pool3d_with_indices.out (input, kernel_size, stride, padding, dilation, ceil_mode, out, indices, results) over
// the last three dimensions of [C, D, H, W] or [N, C, D, H, W] floats, in any dim_order. Lists have one item for all
// dimensions or one for each; an empty stride is the kernel's size.
//
// ExecuTorch has no kernel for it. Results are those of torch 2.13: the first of the largest elements wins, and the
// last NaN wins over all. A window without an element inside gives minus infinity.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void max_pool3d_with_indices(const Arguments& arguments);

}  // namespace ethos_hil
