// What the kernels of ExecuTorch's Cortex-M backend share. They compute with int8 tensors what CMSIS-NN computes, bit
// for bit: CMSIS-NN at dbf45db, which ExecuTorch 1.5.1 builds them with (backends/cortex_m/CMakeLists.txt), in its
// default configuration, where a value is rounded twice when it is scaled (arm_nn_requantize in
// Include/arm_nnsupportfunctions.h; CMSIS_NN_USE_SINGLE_ROUNDING is not set). Sums have 32 bits and wrap. What that
// leaves undefined, or reads in another layout than it has, is refused.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

// A real factor: multiplier * 2^(shift - 31).
struct Scale {
  std::int32_t multiplier;
  std::int32_t shift;
};

// Sums and products of 32 bits that wrap.
inline std::int32_t wrapping_sum(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
inline std::int32_t wrapping_shift(std::int32_t value, std::int32_t left) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value) << left);
}

// a * b / 2^31, rounded to nearest, a half upwards; it wraps for the one product that is beyond 32 bits.
inline std::int32_t high_product(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>((std::int64_t{a} * b + (std::int64_t{1} << 30)) >> 31);
}

// value / 2^exponent, rounded to nearest, a half away from zero. The exponent is 0 to 62.
inline std::int32_t rounded_quotient(std::int32_t value, std::int32_t exponent) {
  if (exponent == 0) return value;
  const std::int64_t half = std::int64_t{1} << (exponent - 1);
  return static_cast<std::int32_t>((value + half - (value < 0 ? 1 : 0)) >> exponent);
}

inline std::int32_t requantize(std::int32_t value, Scale scale) {
  const std::int32_t left = scale.shift > 0 ? scale.shift : 0;
  return rounded_quotient(high_product(wrapping_shift(value, left), scale.multiplier), left - scale.shift);
}

struct Range {
  std::int32_t low;
  std::int32_t high;

  std::int8_t clamp(std::int32_t value) const {
    return static_cast<std::int8_t>(value < low ? low : value > high ? high : value);
  }
};
constexpr Range INT8{INT8_MIN, INT8_MAX};

// These end in reject() unless the argument is within the bounds.
std::int32_t take_integer(const Arguments& arguments, std::uint32_t position, std::int64_t low, std::int64_t high);
// A zero point: of 16 bits for sums and products, as upstream's passes make some; of int8, negated.
std::int32_t take_zero_point(const Arguments& arguments, std::uint32_t position);
std::int32_t take_offset(const Arguments& arguments, std::uint32_t position);
Scale take_scale(const Arguments& arguments, std::uint32_t multiplier_at, std::uint32_t shift_at);
// Bounds within int8, in order.
Range take_range(const Arguments& arguments, std::uint32_t low_at, std::uint32_t high_at);
// Item `axis` of a list of two.
std::int32_t take_item(const Arguments& arguments, std::uint32_t position, std::uint32_t axis, std::int64_t low);

// The int8 tensors of a call.
const Tensor& take_int8(const Arguments& arguments, std::uint32_t position);
Tensor& take_int8_out(const Arguments& arguments, std::uint32_t position);
// One whose elements lie in memory in the order of its dimensions.
const Tensor& take_plain(const Arguments& arguments, std::uint32_t position);
Tensor& take_plain_out(const Arguments& arguments, std::uint32_t position);
// int32, and none of them for a null that the call may have.
const std::int32_t* take_int32(const Arguments& arguments, std::uint32_t position, std::uint32_t elements);

inline const std::int8_t* int8_of(const Tensor& tensor) { return reinterpret_cast<const std::int8_t*>(tensor.data); }
inline std::int8_t* int8_of(Tensor& tensor) { return reinterpret_cast<std::int8_t*>(tensor.data); }

// Whether a tensor of four dimensions, [N, C, H, W], lies in memory as [N, H, W, C].
bool is_channels_last(const Tensor& tensor);

// How an image's dimensions are named. In memory it is [N, H, W, C] in both.
enum class Form {
  CHANNELS_LAST,  // [N, C, H, W], in channels_last
  NHWC,           // [N, H, W, C], as operators whose names end in _nhwc take it
};

struct Image {
  std::int32_t batches;
  std::int32_t height;
  std::int32_t width;
  std::int32_t channels;
};

// Ends in reject() unless the tensor is such an image.
Image image_of(const Arguments& arguments, const Tensor& tensor, Form form, const char* which);

}  // namespace ethos_hil
