#include "runtime/operators.h"

#include <cstring>

#include "runtime/kernels/arithmetic.h"
#include "runtime/kernels/compare.h"
#include "runtime/kernels/copy.h"
#include "runtime/kernels/mean.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/quantize.h"
#include "runtime/kernels/unary.h"

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
    {"aten::abs", "out", elementwise<ABS>},
    {"aten::acos", "out", elementwise<ACOS>},
    {"aten::acosh", "out", elementwise<ACOSH>},
    {"aten::add", "Scalar_out", elementwise<ADD>},
    {"aten::add", "out", elementwise<ADD>},
    {"aten::asin", "out", elementwise<ASIN>},
    {"aten::asinh", "out", elementwise<ASINH>},
    {"aten::atan", "out", elementwise<ATAN>},
    {"aten::atanh", "out", elementwise<ATANH>},
    {"aten::avg_pool2d", "out", avg_pool2d},
    {"aten::bitwise_and", "Scalar_out", elementwise<BITWISE_AND>},
    {"aten::bitwise_and", "Tensor_out", elementwise<BITWISE_AND>},
    {"aten::bitwise_left_shift", "Tensor_Scalar_out", elementwise<SHIFT_LEFT>},
    {"aten::bitwise_left_shift", "Tensor_out", elementwise<SHIFT_LEFT>},
    {"aten::bitwise_not", "out", bitwise_not},
    {"aten::bitwise_or", "Scalar_out", elementwise<BITWISE_OR>},
    {"aten::bitwise_or", "Tensor_out", elementwise<BITWISE_OR>},
    {"aten::bitwise_right_shift", "Tensor_Scalar_out", elementwise<SHIFT_RIGHT>},
    {"aten::bitwise_right_shift", "Tensor_out", elementwise<SHIFT_RIGHT>},
    {"aten::bitwise_xor", "Scalar_out", elementwise<BITWISE_XOR>},
    {"aten::bitwise_xor", "Tensor_out", elementwise<BITWISE_XOR>},
    {"aten::ceil", "out", elementwise<CEIL>},
    {"aten::clamp", "Tensor_out", clamp},
    {"aten::clamp", "out", clamp},
    {"aten::_to_copy", "out", to_copy},
    {"aten::alias_copy", "out", alias_copy},
    {"aten::clone", "out", clone},
    {"aten::copy", "out", copy_broadcast},
    {"aten::detach_copy", "out", alias_copy},
    {"aten::lift_fresh_copy", "out", alias_copy},
    {"aten::cos", "out", elementwise<COS>},
    {"aten::cosh", "out", elementwise<COSH>},
    {"aten::div", "Scalar_mode_out", divide_mode},
    {"aten::div", "Scalar_out", elementwise<DIVIDE>},
    {"aten::div", "out", elementwise<DIVIDE>},
    {"aten::div", "out_mode", divide_mode},
    {"aten::eq", "Scalar_out", elementwise<EQUAL>},
    {"aten::eq", "Tensor_out", elementwise<EQUAL>},
    {"aten::erf", "out", elementwise<ERF>},
    {"aten::exp", "out", elementwise<EXP>},
    {"aten::expm1", "out", elementwise<EXPM1>},
    {"aten::floor", "out", elementwise<FLOOR>},
    {"aten::floor_divide", "out", elementwise<FLOOR_DIVIDE>},
    {"aten::fmod", "Scalar_out", elementwise<FMOD>},
    {"aten::fmod", "Tensor_out", elementwise<FMOD>},
    {"aten::ge", "Scalar_out", elementwise<GREATER_EQUAL>},
    {"aten::ge", "Tensor_out", elementwise<GREATER_EQUAL>},
    {"aten::gelu", "out", gelu},
    {"aten::gt", "Scalar_out", elementwise<GREATER>},
    {"aten::gt", "Tensor_out", elementwise<GREATER>},
    {"aten::hardtanh", "out", elementwise<HARDTANH>},
    {"aten::isinf", "out", elementwise<IS_INFINITE>},
    {"aten::isnan", "out", elementwise<IS_NAN>},
    {"aten::le", "Scalar_out", elementwise<LESS_EQUAL>},
    {"aten::le", "Tensor_out", elementwise<LESS_EQUAL>},
    {"aten::leaky_relu", "out", elementwise<LEAKY_RELU>},
    {"aten::log", "out", elementwise<LOG>},
    {"aten::log10", "out", elementwise<LOG10>},
    {"aten::log1p", "out", elementwise<LOG1P>},
    {"aten::log2", "out", elementwise<LOG2>},
    {"aten::logical_and", "out", elementwise<LOGICAL_AND>},
    {"aten::logical_not", "out", elementwise<LOGICAL_NOT>},
    {"aten::logical_or", "out", elementwise<LOGICAL_OR>},
    {"aten::logical_xor", "out", elementwise<LOGICAL_XOR>},
    {"aten::lt", "Scalar_out", elementwise<LESS>},
    {"aten::lt", "Tensor_out", elementwise<LESS>},
    {"aten::max_pool2d_with_indices", "out", max_pool2d_with_indices},
    {"aten::maximum", "out", elementwise<MAXIMUM>},
    {"aten::mean", "out", mean},
    {"aten::minimum", "out", elementwise<MINIMUM>},
    {"aten::mul", "Scalar_out", elementwise<MULTIPLY>},
    {"aten::mul", "out", elementwise<MULTIPLY>},
    {"aten::ne", "Scalar_out", elementwise<NOT_EQUAL>},
    {"aten::ne", "Tensor_out", elementwise<NOT_EQUAL>},
    {"aten::neg", "out", elementwise<NEGATE>},
    {"aten::pow", "Scalar_out", elementwise<POWER>},
    {"aten::pow", "Tensor_Scalar_out", elementwise<POWER>},
    {"aten::pow", "Tensor_Tensor_out", elementwise<POWER>},
    {"aten::reciprocal", "out", elementwise<RECIPROCAL>},
    {"aten::relu", "out", elementwise<RELU>},
    {"aten::remainder", "Scalar_out", elementwise<REMAINDER>},
    {"aten::remainder", "Tensor_out", elementwise<REMAINDER>},
    {"aten::round", "out", elementwise<ROUND>},
    {"aten::rsqrt", "out", elementwise<RSQRT>},
    {"aten::rsub", "Scalar_out", elementwise<SUBTRACT_REVERSED>},
    {"aten::sigmoid", "out", elementwise<SIGMOID>},
    {"aten::sign", "out", elementwise<SIGN>},
    {"aten::sin", "out", elementwise<SIN>},
    {"aten::sinh", "out", elementwise<SINH>},
    {"aten::sqrt", "out", elementwise<SQRT>},
    {"aten::squeeze_copy", "dim_out", squeeze_copy},
    {"aten::squeeze_copy", "dims_out", squeeze_copy},
    {"aten::sub", "Scalar_out", elementwise<SUBTRACT>},
    {"aten::sub", "out", elementwise<SUBTRACT>},
    {"aten::tan", "out", elementwise<TAN>},
    {"aten::tanh", "out", elementwise<TANH>},
    {"aten::trunc", "out", elementwise<TRUNC>},
    {"aten::unsqueeze_copy", "out", unsqueeze_copy},
    {"aten::view_copy", "out", view_copy},
    {"aten::where", "self_out", where},
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
