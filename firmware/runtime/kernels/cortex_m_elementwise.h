// cortex_m:: operators on int8 elements: quantized_add.out, quantized_mul.out, quantized_div.out (of int16 too),
// quantized_activation.out (input, a table of 256), minimum.out and maximum.out.
//
// Operands have one layout. Sums and products may also be of an image in channels_last and one number for each channel,
// extremes of up to four dimensions that broadcast. A quotient is computed in float32, rounded half away from zero; by
// a zero it is 0.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_add(const Arguments& arguments);
void quantized_mul(const Arguments& arguments);
void quantized_div(const Arguments& arguments);
void quantized_activation(const Arguments& arguments);
void quantized_minimum(const Arguments& arguments);
void quantized_maximum(const Arguments& arguments);

}  // namespace ethos_hil
