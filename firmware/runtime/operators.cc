#include "runtime/operators.h"

#include <cstring>

#include "runtime/kernels/copy.h"
#include "runtime/kernels/mean.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/quantize.h"

namespace ethos_hil {

namespace {

struct Entry {
  const char* name;
  const char* overload;
  Kernel kernel;
};

// cortex_m:: names come from ExecuTorch's aot_arm_compiler, which replaces the quantized_decomposed ones.
constexpr Entry OPERATORS[] = {
    {"aten::_native_batch_norm_legit_no_training", "out", batch_norm},
    {"aten::avg_pool2d", "out", avg_pool2d},
    {"aten::clone", "out", clone},
    {"aten::max_pool2d_with_indices", "out", max_pool2d_with_indices},
    {"aten::mean", "out", mean},
    {"aten::squeeze_copy", "dims_out", squeeze_copy},
    {"aten::unsqueeze_copy", "out", unsqueeze_copy},
    {"aten::view_copy", "out", view_copy},
    {"cortex_m::dequantize_per_tensor", "out", dequantize_per_tensor},
    {"cortex_m::quantize_per_tensor", "out", quantize_per_tensor},
    {"dim_order_ops::_clone_dim_order", "out", to_dim_order_copy},
    {"dim_order_ops::_to_dim_order_copy", "out", to_dim_order_copy},
    {"quantized_decomposed::dequantize_per_tensor", "out", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_tensor", "out", quantize_per_tensor},
};

}  // namespace

Kernel find_kernel(const char* name, const char* overload) {
  for (const Entry& entry : OPERATORS) {
    if (std::strcmp(entry.name, name) == 0 && std::strcmp(entry.overload, overload) == 0) return entry.kernel;
  }
  return nullptr;
}

}  // namespace ethos_hil
