// Convolutions of int8 images in the Cortex-M backend, of one scale and shift for each output channel:
// cortex_m::quantized_conv2d.out (weights [O, H, W, I], groups by I), quantized_depthwise_conv2d.out (weights
// [1, H, W, O], one image) and quantized_transpose_conv2d.out (weights [O, H, W, I], without dilation and
// output_padding, which CMSIS-NN has not), and their _nhwc forms. The scratch memory that CMSIS-NN needs is not used.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_conv2d(const Arguments& arguments);
void quantized_conv2d_nhwc(const Arguments& arguments);
void quantized_depthwise_conv2d(const Arguments& arguments);
void quantized_depthwise_conv2d_nhwc(const Arguments& arguments);
void quantized_transpose_conv2d(const Arguments& arguments);
void quantized_transpose_conv2d_nhwc(const Arguments& arguments);

}  // namespace ethos_hil
