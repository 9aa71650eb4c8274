// Activations with numbers of their own, of floats but DOUBLE, in any dim_order, each followed by its output, twice:
// elu (input, alpha, scale, input_scale), logit (input, eps or none) and glu (input, dimension), which halves that
// dimension. exp, expm1 and log are rounded once (rounded.h); the rest is float, one operation after the other, in the
// order of ExecuTorch's portable kernels (op_elu.cpp, op_logit.cpp, op_glu.cpp).
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void elu(const Arguments& arguments);
void logit(const Arguments& arguments);
void glu(const Arguments& arguments);

}  // namespace ethos_hil
