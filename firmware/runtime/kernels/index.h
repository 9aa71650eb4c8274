// Kernels that pick elements by tensors of indices (INT or LONG; negative indices count from the end, where upstream
// allows them; all are checked), each followed by its output, twice: index_select (input, dimension, indices),
// embedding (weight, indices, padding_idx, scale_grad_by_freq, sparse), gather (input, dimension, indices,
// sparse_grad), index (input, a list of indices or none for each of the first dimensions), index_put (input, such a
// list, values, whether to add them). Masks are refused, because the number of elements they pick is not known in
// advance. Where several values go to one place, the last one stays, or all are added, in order.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void index_select(const Arguments& arguments);
void embedding(const Arguments& arguments);
void gather(const Arguments& arguments);
void index_tensor(const Arguments& arguments);
void index_put(const Arguments& arguments);

}  // namespace ethos_hil
