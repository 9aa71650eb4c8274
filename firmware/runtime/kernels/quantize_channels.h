// dequantize_per_channel.out (input, scales, zero points or none, axis, quant_min, quant_max, dtype, out_dtype or none,
// out, out), with a scale (DOUBLE or FLOAT) and a zero point (LONG or INT) for each index of a dimension: int8, uint8,
// int16 or int32 to float, in any dim_order.
//
// Results are those of ExecuTorch's portable kernel (kernels/quantized/cpu/op_dequantize.cpp), which computes in float.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void dequantize_per_channel(const Arguments& arguments);

}  // namespace ethos_hil
