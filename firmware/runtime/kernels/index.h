// Kernels that pick elements by tensors of indices (INT or LONG; negative ones count from the end, where upstream lets
// them; all are checked), each followed by its output, twice: index_select (input, dimension, indices), embedding
// (weight, indices, padding_idx, scale_grad_by_freq, sparse), gather (input, dimension, indices, sparse_grad), index
// (input, a list of indices or none for each of the first dimensions), index_put (input, such a list, values, whether
// they are added). Masks are refused: how many elements they pick is not known before. Of values that are put in one
// place the last stays, or all are added, in order.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void index_select(const Arguments& arguments);
void embedding(const Arguments& arguments);
void gather(const Arguments& arguments);
void index_tensor(const Arguments& arguments);
void index_put(const Arguments& arguments);

}  // namespace ethos_hil
