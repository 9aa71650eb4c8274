// grid_sampler_2d.out (input, grid, interpolation: 0 bilinear or 1 nearest, padding: 0 zeros, 1 border or 2 reflection,
// align_corners, out, out) of floats [N, C, H, W] and a grid [N, H, W, 2], in any dim_order. Results are those of
// ExecuTorch's portable kernel (op_grid_sampler_2d.cpp of 1.5.1): places are floats, and ties go to even pixels.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void grid_sampler_2d(const Arguments& arguments);

}  // namespace ethos_hil
