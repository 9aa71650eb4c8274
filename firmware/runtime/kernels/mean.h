// mean.out (input, dimensions or none for all, keepdim, dtype or none, out, out): floats, any dim_order. The numbers of
// ExecuTorch's portable kernel (kernels/portable/cpu/op_mean.cpp): one float sum from the first element on, the last
// dimension fastest, then a division.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void mean(const Arguments& arguments);

}  // namespace ethos_hil
