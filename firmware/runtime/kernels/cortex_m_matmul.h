// Products of int8 matrices in the Cortex-M backend, contiguous: cortex_m::quantized_linear.out (input [..., I],
// weights [O, I], bias or kernel_sum, one scale for all) and quantized_batch_matmul.out (left [B, M, K], right [B, N,
// K]).
//
// A linear layer has a bias, or a kernel_sum of bias and input_offset * (sum of the weights), which the passes for
// cores with MVE compute; without that the offset is added to each input.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_linear(const Arguments& arguments);
void quantized_batch_matmul(const Arguments& arguments);

}  // namespace ethos_hil
