// Kernels that move elements to other places, of any type and in any dim_order. Each is followed by its output, twice:
// permute_copy (input, dimensions), transpose_copy.int (input, dimension, dimension), expand_copy (input, sizes,
// implicit), slice_copy.Tensor (input, dimension, start or none, end or none, step), select_copy.int (input, dimension,
// index), flip (input, dimensions), repeat (input, repeats), unfold_copy (input, dimension, size, step),
// as_strided_copy (input, sizes, strides, offset or none), constant_pad_nd (input, widths, value), roll (input, shifts,
// dimensions, or none for the elements in order) and cat (inputs, dimension). The outputs of split_with_sizes_copy
// (input, sizes, dimension) are one list.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void permute_copy(const Arguments& arguments);
void transpose_copy(const Arguments& arguments);
void expand_copy(const Arguments& arguments);
void slice_copy(const Arguments& arguments);
void select_copy(const Arguments& arguments);
void flip(const Arguments& arguments);
void repeat(const Arguments& arguments);
void unfold_copy(const Arguments& arguments);
void as_strided_copy(const Arguments& arguments);
void constant_pad(const Arguments& arguments);
void roll(const Arguments& arguments);
void cat(const Arguments& arguments);
void split_with_sizes_copy(const Arguments& arguments);

}  // namespace ethos_hil
