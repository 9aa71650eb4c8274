// More kernels that move elements, of any type and in any dim_order, each followed by its output, twice: roll (input,
// shifts, dimensions, or none for the elements in order), diagonal_copy (input, offset, dimension, dimension), tril
// (input, diagonal) and fill.Tensor (like, value).
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void roll(const Arguments& arguments);
void diagonal_copy(const Arguments& arguments);
void tril(const Arguments& arguments);
void fill_tensor(const Arguments& arguments);

}  // namespace ethos_hil
