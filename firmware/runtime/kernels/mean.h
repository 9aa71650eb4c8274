// mean.out (input, dimensions or none for all, keepdim, dtype or none, out, out): floats, any dim_order. The numbers of
// ExecuTorch's portable kernel (kernels/portable/cpu/op_mean.cpp): one float sum, the last
// dimension fastest, then a division. A sum over the last dimension alone starts from 0.0, others from their first
// element.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void mean(const Arguments& arguments);

}  // namespace ethos_hil
