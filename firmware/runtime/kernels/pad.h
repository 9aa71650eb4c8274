// reflection_pad1d, 2d and 3d, and replication_pad1d, 2d and 3d.out (input, widths, out, out), of any type and in any
// dim_order. The widths are pairs, from the last dimension on, none negative.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void reflection_pad(const Arguments& arguments);
void replication_pad(const Arguments& arguments);

}  // namespace ethos_hil
