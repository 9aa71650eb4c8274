// _native_batch_norm_legit_no_training.out (input, weight or none, bias or none, running mean, running variance,
// momentum, eps, out, saved mean, saved inverse deviation, results): floats of two dimensions or more, channels in
// dimension 1, any dim_order. The saved outputs are empty when statistics are given, and are not written.
//
// Results are those of ExecuTorch's portable kernel (kernels/portable/cpu/op_native_batch_norm.cpp): the inverse
// deviation is computed in double and rounded to float once, the rest is float, one operation after the other.
//
// _native_batch_norm_legit.no_stats_out (input, weight or none, bias or none, training, momentum, eps, out, mean,
// inverse deviation, results) computes mean and variance of each channel, over all other dimensions: sums and
// deviations in double, in the order of memory, each rounded to float once. ExecuTorch's kernel of that name only
// fails.
//
// native_layer_norm.out (input, normalized_shape, weight or none, bias or none, eps, out, mean, inverse deviation,
// results) of contiguous floats. Results are those of op_native_layer_norm.cpp, all float, with the variance as the
// mean of squares minus the square of the mean.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

void batch_norm(const Arguments& arguments);
void batch_norm_no_stats(const Arguments& arguments);
void layer_norm(const Arguments& arguments);

}  // namespace ethos_hil
