// upsample_nearest2d.vec_out (input, output_size or none, scale_factors or none, out, out) and
// upsample_bilinear2d.vec_out (input, output_size or none, align_corners, scale_factors or none, out, out) of [N, C, H,
// W] in any dim_order; nearest for any type, bilinear for any but DOUBLE. Results are those of ExecuTorch's portable
// kernels (kernels/portable/cpu/util/upsample_util.h), whose positions are floats.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void upsample_nearest2d(const Arguments& arguments);
void upsample_bilinear2d(const Arguments& arguments);

}  // namespace ethos_hil
