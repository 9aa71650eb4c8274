// Pools of int8 images in the Cortex-M backend: cortex_m::quantized_avg_pool2d.out, quantized_max_pool2d.out (without
// dilation and ceil_mode, which CMSIS-NN has not), and their _nhwc forms. An average is of the elements inside the
// input, rounded half away from zero; its scale and zero point say nothing, since input and output have the same.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_avg_pool2d(const Arguments& arguments);
void quantized_avg_pool2d_nhwc(const Arguments& arguments);
void quantized_max_pool2d(const Arguments& arguments);
void quantized_max_pool2d_nhwc(const Arguments& arguments);

}  // namespace ethos_hil
