// quantize_per_tensor.out (input, scale, zero_point, quant_min, quant_max, dtype, out, out) and
// dequantize_per_tensor.out (input, scale, zero_point, quant_min, quant_max, dtype, [out_dtype,] out, out), float on
// one side and int8, uint8, int16, uint16 or int32 on the other. Results are those of ExecuTorch's portable kernels
// (kernels/quantized/cpu/op_quantize.cpp and op_dequantize.cpp). Where C++ leaves their result undefined (infinities,
// values beyond 2^63, NaN), infinities saturate and NaN becomes quant_min.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantize_per_tensor(const Arguments& arguments);
void dequantize_per_tensor(const Arguments& arguments);

}  // namespace ethos_hil
