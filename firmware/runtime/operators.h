// The operators of this firmware, by the name and overload that programs use. The ELF has a list of them in its section
// .ethos_hil.operators.
#pragma once

#include <cstdint>

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

using Kernel = void (*)(const Arguments& arguments);

// Returns null when there is none.
Kernel find_kernel(const char* name, const char* overload);

}  // namespace ethos_hil
