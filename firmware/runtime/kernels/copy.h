// Kernels that keep the order of elements and change their type, layout or shape:
// _to_dim_order_copy.out and _clone_dim_order.out (input, non_blocking, dim_order, out, out) and _to_copy.out (input,
// non_blocking, memory_format, out, out): the element type and the layout become those of `out`; clone.out (input,
// memory_format, out, out); alias_copy and detach_copy.out (input, out, out); copy.out (input, source,
// non_blocking, out, out): the source, broadcast; view_copy.out (input, sizes, out, out); unsqueeze_copy.out (input,
// dimension, out, out); squeeze_copy.dims_out and dim_out (input, dimensions or one, out, out).
// How types are converted is in kernels/element.h.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void to_dim_order_copy(const Arguments& arguments);
void to_copy(const Arguments& arguments);
void clone(const Arguments& arguments);
void alias_copy(const Arguments& arguments);
void copy_broadcast(const Arguments& arguments);
void copy_in_place(const Arguments& arguments);
void view_copy(const Arguments& arguments);
void unsqueeze_copy(const Arguments& arguments);
void squeeze_copy(const Arguments& arguments);

}  // namespace ethos_hil
