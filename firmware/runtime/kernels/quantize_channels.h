// dequantize_per_channel.out (input, scales, zero points or none, axis, quant_min, quant_max, dtype, out_dtype or none,
// out, out) and quantize_per_channel.out (input, scales, zero points, axis, quant_min, quant_max, dtype, out, out),
// with a scale (DOUBLE or FLOAT) and a zero point (LONG or INT) for each index of a dimension: float on one side and
// int8, uint8, int16 or int32 on the other, in any dim_order.
//
// Results are those of ExecuTorch's portable kernels (kernels/quantized/cpu/op_quantize.cpp and op_dequantize.cpp),
// which compute in float. Values that a type cannot hold are treated as in quantize.h.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantize_per_channel(const Arguments& arguments);
void dequantize_per_channel(const Arguments& arguments);

}  // namespace ethos_hil
