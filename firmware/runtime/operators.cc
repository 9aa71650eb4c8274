#include "runtime/operators.h"

#include <cstddef>
#include <cstring>
#include <iterator>

#include "runtime/kernels/adaptive_pool.h"
#include "runtime/kernels/arithmetic.h"
#include "runtime/kernels/arrange.h"
#include "runtime/kernels/compare.h"
#include "runtime/kernels/convolution.h"
#include "runtime/kernels/copy.h"
#include "runtime/kernels/cortex_m_arrange.h"
#include "runtime/kernels/cortex_m_convolution.h"
#include "runtime/kernels/cortex_m_elementwise.h"
#include "runtime/kernels/cortex_m_matmul.h"
#include "runtime/kernels/cortex_m_pool.h"
#include "runtime/kernels/cortex_m_softmax.h"
#include "runtime/kernels/fill.h"
#include "runtime/kernels/grid_sample.h"
#include "runtime/kernels/index.h"
#include "runtime/kernels/matmul.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/pool3d.h"
#include "runtime/kernels/quantize.h"
#include "runtime/kernels/quantize_channels.h"
#include "runtime/kernels/reduce.h"
#include "runtime/kernels/scan.h"
#include "runtime/kernels/scatter.h"
#include "runtime/kernels/softmax.h"
#include "runtime/kernels/unary.h"
#include "runtime/kernels/upsample.h"

namespace ethos_hil {

namespace {

struct Entry {
  const char* name;
  const char* overload;
  Kernel kernel;
};

// cortex_m:: names come from ExecuTorch's aot_arm_compiler, which replaces the quantized_decomposed ones.
constexpr Entry ALL_OPERATORS[] = {
    {"aten::_adaptive_avg_pool2d", "out", adaptive_avg_pool2d},
    {"aten::_log_softmax", "out", log_softmax},
    {"aten::_native_batch_norm_legit", "no_stats_out", batch_norm_no_stats},
    {"aten::_native_batch_norm_legit_no_training", "out", batch_norm},
    {"aten::_softmax", "out", softmax},
    {"aten::_to_copy", "out", to_copy},
    {"aten::abs", "out", elementwise<ABS>},
    {"aten::adaptive_max_pool2d", "out", adaptive_max_pool2d},
    {"aten::add", "Scalar_out", elementwise<ADD>},
    {"aten::add", "out", elementwise<ADD>},
    {"aten::addmm", "out", addmm},
    {"aten::alias_copy", "out", alias_copy},
    {"aten::amax", "out", largest},
    {"aten::amin", "out", smallest},
    {"aten::any", "all_out", any_all},
    {"aten::any", "dims_out", any},
    {"aten::any", "out", any},
    {"aten::arange", "out", arange},
    {"aten::arange", "start_out", arange_start},
    {"aten::argmax", "out", argmax},
    {"aten::argmin", "out", argmin},
    {"aten::as_strided_copy", "out", as_strided_copy},
    {"aten::atan2", "out", elementwise<ATAN2>},
    {"aten::avg_pool2d", "out", avg_pool2d},
    {"aten::bitwise_and", "Scalar_out", elementwise<BITWISE_AND>},
    {"aten::bitwise_and", "Tensor_out", elementwise<BITWISE_AND>},
    {"aten::bitwise_not", "out", bitwise_not},
    {"aten::bitwise_or", "Scalar_out", elementwise<BITWISE_OR>},
    {"aten::bitwise_or", "Tensor_out", elementwise<BITWISE_OR>},
    {"aten::bitwise_xor", "Scalar_out", elementwise<BITWISE_XOR>},
    {"aten::bitwise_xor", "Tensor_out", elementwise<BITWISE_XOR>},
    {"aten::bmm", "out", bmm},
    {"aten::cat", "out", cat},
    {"aten::ceil", "out", elementwise<CEIL>},
    {"aten::clamp", "Tensor_out", clamp},
    {"aten::clamp", "out", clamp},
    {"aten::clone", "out", clone},
    {"aten::constant_pad_nd", "out", constant_pad},
    {"aten::convolution", "out", convolution},
    {"aten::copy", "out", copy_broadcast},
    {"aten::copy_", "", copy_in_place},
    {"aten::cos", "out", elementwise<COS>},
    {"aten::cumsum", "out", cumsum},
    {"aten::detach_copy", "out", alias_copy},
    {"aten::div", "Scalar_mode_out", divide_mode},
    {"aten::div", "Scalar_out", elementwise<DIVIDE>},
    {"aten::div", "out", elementwise<DIVIDE>},
    {"aten::div", "out_mode", divide_mode},
    {"aten::embedding", "out", embedding},
    {"aten::eq", "Scalar_out", elementwise<EQUAL>},
    {"aten::eq", "Tensor_out", elementwise<EQUAL>},
    {"aten::erf", "out", elementwise<ERF>},
    {"aten::exp", "out", elementwise<EXP>},
    {"aten::expand_copy", "out", expand_copy},
    {"aten::fill", "Scalar_out", full_like},
    {"aten::flip", "out", flip},
    {"aten::floor", "out", elementwise<FLOOR>},
    {"aten::fmod", "Scalar_out", elementwise<FMOD>},
    {"aten::fmod", "Tensor_out", elementwise<FMOD>},
    {"aten::full", "out", full},
    {"aten::full_like", "out", full_like},
    {"aten::gather", "out", gather},
    {"aten::ge", "Scalar_out", elementwise<GREATER_EQUAL>},
    {"aten::ge", "Tensor_out", elementwise<GREATER_EQUAL>},
    {"aten::gelu", "out", gelu},
    {"aten::grid_sampler_2d", "out", grid_sampler_2d},
    {"aten::gt", "Scalar_out", elementwise<GREATER>},
    {"aten::gt", "Tensor_out", elementwise<GREATER>},
    {"aten::hardtanh", "out", elementwise<HARDTANH>},
    {"aten::index", "Tensor_out", index_tensor},
    {"aten::index_put", "out", index_put},
    {"aten::index_select", "out", index_select},
    {"aten::isinf", "out", elementwise<IS_INFINITE>},
    {"aten::isnan", "out", elementwise<IS_NAN>},
    {"aten::le", "Scalar_out", elementwise<LESS_EQUAL>},
    {"aten::le", "Tensor_out", elementwise<LESS_EQUAL>},
    {"aten::leaky_relu", "out", elementwise<LEAKY_RELU>},
    {"aten::linear", "out", linear},
    {"aten::log", "out", elementwise<LOG>},
    {"aten::log10", "out", elementwise<LOG10>},
    {"aten::log2", "out", elementwise<LOG2>},
    {"aten::logical_and", "out", elementwise<LOGICAL_AND>},
    {"aten::logical_not", "out", elementwise<LOGICAL_NOT>},
    {"aten::logical_or", "out", elementwise<LOGICAL_OR>},
    {"aten::logical_xor", "out", elementwise<LOGICAL_XOR>},
    {"aten::lt", "Scalar_out", elementwise<LESS>},
    {"aten::lt", "Tensor_out", elementwise<LESS>},
    {"aten::max", "dim_max", max_along},
    {"aten::max", "unary_out", largest_all},
    {"aten::max_pool2d_with_indices", "out", max_pool2d_with_indices},
    {"aten::max_pool3d_with_indices", "out", max_pool3d_with_indices},
    {"aten::maximum", "out", elementwise<MAXIMUM>},
    {"aten::mean", "dtype_out", mean_all},
    {"aten::mean", "out", mean},
    {"aten::min", "dim_min", min_along},
    {"aten::min", "unary_out", smallest_all},
    {"aten::minimum", "out", elementwise<MINIMUM>},
    {"aten::mm", "out", mm},
    {"aten::mul", "Scalar_out", elementwise<MULTIPLY>},
    {"aten::mul", "out", elementwise<MULTIPLY>},
    {"aten::native_layer_norm", "out", layer_norm},
    {"aten::ne", "Scalar_out", elementwise<NOT_EQUAL>},
    {"aten::ne", "Tensor_out", elementwise<NOT_EQUAL>},
    {"aten::neg", "out", elementwise<NEGATE>},
    {"aten::ones", "out", ones},
    {"aten::permute_copy", "out", permute_copy},
    {"aten::pow", "Scalar_out", elementwise<POWER>},
    {"aten::pow", "Tensor_Scalar_out", elementwise<POWER>},
    {"aten::pow", "Tensor_Tensor_out", elementwise<POWER>},
    {"aten::prod", "int_out", product},
    {"aten::prod", "out", product_all},
    {"aten::reciprocal", "out", elementwise<RECIPROCAL>},
    {"aten::relu", "out", elementwise<RELU>},
    {"aten::remainder", "Scalar_out", elementwise<REMAINDER>},
    {"aten::remainder", "Tensor_out", elementwise<REMAINDER>},
    {"aten::repeat", "out", repeat},
    {"aten::roll", "out", roll},
    {"aten::round", "out", elementwise<ROUND>},
    {"aten::rsqrt", "out", elementwise<RSQRT>},
    {"aten::scalar_tensor", "out", scalar_tensor},
    {"aten::scatter", "src_out", scatter_source},
    {"aten::scatter", "value_out", scatter_value},
    {"aten::scatter_add", "out", scatter_add},
    {"aten::select_copy", "int_out", select_copy},
    {"aten::sigmoid", "out", elementwise<SIGMOID>},
    {"aten::sign", "out", elementwise<SIGN>},
    {"aten::sin", "out", elementwise<SIN>},
    {"aten::slice_copy", "Tensor_out", slice_copy},
    {"aten::sort", "values", sort},
    {"aten::split_with_sizes_copy", "out", split_with_sizes_copy},
    {"aten::sqrt", "out", elementwise<SQRT>},
    {"aten::squeeze_copy", "dim_out", squeeze_copy},
    {"aten::squeeze_copy", "dims_out", squeeze_copy},
    {"aten::sub", "Scalar_out", elementwise<SUBTRACT>},
    {"aten::sub", "out", elementwise<SUBTRACT>},
    {"aten::sum", "IntList_out", sum},
    {"aten::tanh", "out", elementwise<TANH>},
    {"aten::topk", "values", topk},
    {"aten::transpose_copy", "int_out", transpose_copy},
    {"aten::trunc", "out", elementwise<TRUNC>},
    {"aten::unfold_copy", "out", unfold_copy},
    {"aten::unsqueeze_copy", "out", unsqueeze_copy},
    {"aten::upsample_bilinear2d", "vec_out", upsample_bilinear2d},
    {"aten::upsample_nearest2d", "vec_out", upsample_nearest2d},
    {"aten::view_copy", "out", view_copy},
    {"aten::where", "self_out", where},
    {"aten::zeros", "out", zeros},
    {"cortex_m::dequantize_per_tensor", "out", dequantize_per_tensor},
    {"cortex_m::maximum", "out", quantized_maximum},
    {"cortex_m::minimum", "out", quantized_minimum},
    {"cortex_m::pad", "out", quantized_pad},
    {"cortex_m::quantize_per_tensor", "out", quantize_per_tensor},
    {"cortex_m::quantized_activation", "out", quantized_activation},
    {"cortex_m::quantized_add", "out", quantized_add},
    {"cortex_m::quantized_avg_pool2d", "out", quantized_avg_pool2d},
    {"cortex_m::quantized_avg_pool2d_nhwc", "out", quantized_avg_pool2d_nhwc},
    {"cortex_m::quantized_batch_matmul", "out", quantized_batch_matmul},
    {"cortex_m::quantized_conv2d", "out", quantized_conv2d},
    {"cortex_m::quantized_conv2d_nhwc", "out", quantized_conv2d_nhwc},
    {"cortex_m::quantized_depthwise_conv2d", "out", quantized_depthwise_conv2d},
    {"cortex_m::quantized_depthwise_conv2d_nhwc", "out", quantized_depthwise_conv2d_nhwc},
    {"cortex_m::quantized_div", "out", quantized_div},
    {"cortex_m::quantized_linear", "out", quantized_linear},
    {"cortex_m::quantized_max_pool2d", "out", quantized_max_pool2d},
    {"cortex_m::quantized_max_pool2d_nhwc", "out", quantized_max_pool2d_nhwc},
    {"cortex_m::quantized_mul", "out", quantized_mul},
    {"cortex_m::quantized_transpose_conv2d", "out", quantized_transpose_conv2d},
    {"cortex_m::quantized_transpose_conv2d_nhwc", "out", quantized_transpose_conv2d_nhwc},
    {"cortex_m::softmax", "out", quantized_softmax},
    {"cortex_m::transpose", "out", quantized_transpose},
    {"dim_order_ops::_clone_dim_order", "out", to_dim_order_copy},
    {"dim_order_ops::_to_dim_order_copy", "out", to_dim_order_copy},
    {"quantized_decomposed::dequantize_per_channel", "out", dequantize_per_channel},
    {"quantized_decomposed::dequantize_per_tensor", "out", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_tensor", "out", quantize_per_tensor},
};

// What this board does without, from its preset: names as above, "name.overload", or the start of a name and a star,
// separated by commas.
#ifndef ETHOS_HIL_LEFT_OUT
#define ETHOS_HIL_LEFT_OUT ""
#endif
constexpr char LEFT_OUT[] = ETHOS_HIL_LEFT_OUT;

// Whether the pattern that starts at `at` names the entry.
constexpr bool names(const char* at, const Entry& entry) {
  const char* parts[] = {entry.name, *entry.overload == '\0' ? "" : ".", entry.overload};
  for (const char* part : parts) {
    for (; *part != '\0'; ++part, ++at) {
      if (*at == '*') return true;
      if (*at != *part) return false;
    }
  }
  return *at == '\0' || *at == ',' || *at == '*';
}

constexpr const char* next_pattern(const char* at) {
  while (*at != '\0' && *at != ',') ++at;
  return *at == ',' ? at + 1 : at;
}

constexpr bool is_left_out(const Entry& entry) {
  for (const char* at = LEFT_OUT; *at != '\0'; at = next_pattern(at)) {
    if (names(at, entry)) return true;
  }
  return false;
}

constexpr bool every_pattern_names_one() {
  for (const char* at = LEFT_OUT; *at != '\0'; at = next_pattern(at)) {
    bool found = false;
    for (const Entry& entry : ALL_OPERATORS) found = found || names(at, entry);
    if (!found) return false;
  }
  return true;
}
static_assert(every_pattern_names_one(), "ETHOS_HIL_LEFT_OUT names a kernel that there is not");

struct Table {
  Entry entries[std::size(ALL_OPERATORS)];
};

// Without a reference to a kernel that is left out, so that the linker drops its code.
constexpr Table make_table() {
  Table table{};
  std::size_t at = 0;
  for (const Entry& entry : ALL_OPERATORS) {
    if (!is_left_out(entry)) table.entries[at++] = entry;
  }
  return table;
}

constexpr Table OPERATORS = make_table();

// The table's names as text, one "name.overload" a line, for tools that ask what an ELF can run. The linker scripts put
// it into a section that is not loaded.
constexpr std::size_t length_of(const char* text) {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

constexpr std::size_t length_of_list() {
  std::size_t length = 0;
  for (const Entry& entry : OPERATORS.entries) {
    if (entry.name == nullptr) break;
    const std::size_t overload = length_of(entry.overload);
    length += length_of(entry.name) + (overload == 0 ? 0 : 1 + overload) + 1;
  }
  return length;
}

struct List {
  char text[length_of_list()];
};

constexpr List make_list() {
  List list{};
  std::size_t at = 0;
  for (const Entry& entry : OPERATORS.entries) {
    if (entry.name == nullptr) break;
    for (const char* c = entry.name; *c != '\0'; ++c) list.text[at++] = *c;
    if (*entry.overload != '\0') list.text[at++] = '.';
    for (const char* c = entry.overload; *c != '\0'; ++c) list.text[at++] = *c;
    list.text[at++] = '\n';
  }
  return list;
}

[[gnu::section(".ethos_hil.operators"), gnu::used]] constexpr List LIST = make_list();

}  // namespace

Kernel find_kernel(const char* name, const char* overload) {
  for (const Entry& entry : OPERATORS.entries) {
    if (entry.name == nullptr) break;
    if (std::strcmp(entry.name, name) == 0 && std::strcmp(entry.overload, overload) == 0) return entry.kernel;
  }
  return nullptr;
}

}  // namespace ethos_hil
