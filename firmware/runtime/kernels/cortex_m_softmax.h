// cortex_m::softmax.out (input, dim, input_zero_point, output_zero_point, input_multiplier, input_shift, diff_min, out,
// out): along the last dimension of a contiguous int8 tensor, to int8 of scale 1/256 and zero point -128.
//
// Exponentials and the reciprocal of their sum are gemmlowp's, in fixed point (fixedpoint/fixedpoint.h:
// exp_on_negative_values, one_over_one_plus_x_for_x_in_0_1), as CMSIS-NN has them.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_softmax(const Arguments& arguments);

}  // namespace ethos_hil
