// scatter.src and scatter_add.out (input, dimension, indices, source, out, out) and scatter.value_out (input,
// dimension, indices, value, out, out), of any type and in any dim_order; the indices are INT or LONG and inside the
// dimension. Where several go to one place, the last one stays, or all are added, in order.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void scatter_source(const Arguments& arguments);
void scatter_value(const Arguments& arguments);
void scatter_add(const Arguments& arguments);

}  // namespace ethos_hil
