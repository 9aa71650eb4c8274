// Moves of int8 elements in the Cortex-M backend, of up to four dimensions: cortex_m::transpose.out (input,
// permutation, out, out), contiguous, and pad.out (input, before, after, value, out, out), whose two lists have four
// items for the last dimensions, in the order of memory: an image in channels_last has its channels last there.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void quantized_transpose(const Arguments& arguments);
void quantized_pad(const Arguments& arguments);

}  // namespace ethos_hil
