// Kernels that move elements to other places, of any type and in any dim_order. Each is followed by its output, twice:
// permute_copy (input, dimensions), transpose_copy.int (input, dimension, dimension), t_copy (input), expand_copy
// (input, sizes, implicit), slice_copy.Tensor (input, dimension, start or none, end or none, step), narrow_copy (input,
// dimension, start, length), select_copy.int (input, dimension, index), flip (input, dimensions), repeat (input,
// repeats), unfold_copy (input, dimension, size, step), as_strided_copy (input, sizes, strides, offset or none),
// pixel_shuffle and pixel_unshuffle (input, factor), constant_pad_nd (input, widths, value), select_scatter (input,
// source, dimension, index), slice_scatter (input, source, dimension, start or none, end or none, step), cat and stack
// (inputs, dimension). The outputs of split_copy.Tensor (input, size, dimension), split_with_sizes_copy (input, sizes,
// dimension) and unbind_copy.int (input, dimension) are one list.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void permute_copy(const Arguments& arguments);
void transpose_copy(const Arguments& arguments);
void t_copy(const Arguments& arguments);
void expand_copy(const Arguments& arguments);
void slice_copy(const Arguments& arguments);
void narrow_copy(const Arguments& arguments);
void select_copy(const Arguments& arguments);
void flip(const Arguments& arguments);
void repeat(const Arguments& arguments);
void unfold_copy(const Arguments& arguments);
void as_strided_copy(const Arguments& arguments);
void pixel_shuffle(const Arguments& arguments);
void pixel_unshuffle(const Arguments& arguments);
void constant_pad(const Arguments& arguments);
void select_scatter(const Arguments& arguments);
void slice_scatter(const Arguments& arguments);
void cat(const Arguments& arguments);
void stack(const Arguments& arguments);
void split_copy(const Arguments& arguments);
void split_with_sizes_copy(const Arguments& arguments);
void unbind_copy(const Arguments& arguments);

}  // namespace ethos_hil
