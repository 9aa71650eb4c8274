// convolution.out (input, weight, bias or none, stride, padding, dilation, transposed, output_padding, groups, out,
// out) of floats, [N, C, W] or [N, C, H, W], in any dim_order. Results are those of ExecuTorch's portable kernel
// (kernels/portable/cpu/op_convolution.cpp): one float sum for each output, over channels, then rows, then columns, and
// the bias last; transposed, the bias first and then each input's share, in the order of the inputs.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void convolution(const Arguments& arguments);

}  // namespace ethos_hil
