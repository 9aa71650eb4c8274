// _softmax.out and _log_softmax.out (input, dimension, half_to_float, out, out) of floats, half and bfloat16, in any
// dim_order. Computed in float, as ExecuTorch's portable kernels do (kernels/portable/cpu/op_softmax.cpp), with
// exponentials and logarithms that are rounded once (kernels/rounded.h).
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void softmax(const Arguments& arguments);
void log_softmax(const Arguments& arguments);

}  // namespace ethos_hil
