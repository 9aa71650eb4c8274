#include "runtime/kernels/cortex_m.h"

namespace ethos_hil {

std::int32_t take_integer(const Arguments& arguments, std::uint32_t position, std::int64_t low, std::int64_t high) {
  const std::int64_t found = arguments.integer(position);
  if (found < low || found > high) {
    arguments.reject(Text() << "argument " << position << " is " << found << ", expected " << low << " to " << high);
  }
  return static_cast<std::int32_t>(found);
}

std::int32_t take_zero_point(const Arguments& arguments, std::uint32_t position) {
  return take_integer(arguments, position, INT16_MIN, INT16_MAX);
}

std::int32_t take_offset(const Arguments& arguments, std::uint32_t position) {
  return take_integer(arguments, position, -INT8_MAX, -INT8_MIN);
}

Scale take_scale(const Arguments& arguments, std::uint32_t multiplier_at, std::uint32_t shift_at) {
  return Scale{take_integer(arguments, multiplier_at, -INT32_MAX, INT32_MAX),
               take_integer(arguments, shift_at, -31, 30)};
}

Range take_range(const Arguments& arguments, std::uint32_t low_at, std::uint32_t high_at) {
  const std::int32_t low = take_integer(arguments, low_at, INT8_MIN, INT8_MAX);
  return Range{low, take_integer(arguments, high_at, low, INT8_MAX)};
}

std::int32_t take_item(const Arguments& arguments, std::uint32_t position, std::uint32_t axis, std::int64_t low) {
  // Far below 2^31, so that no sum or product of two overflows 32 bits.
  constexpr std::int64_t MOST = 32767;
  if (arguments.list_size(position) != 2) {
    arguments.reject(Text() << "argument " << position << " has " << arguments.list_size(position)
                            << " items, expected 2");
  }
  const std::int64_t found = arguments.list_item(position, axis);
  if (found < low || found > MOST) {
    arguments.reject(Text() << "argument " << position << " has an item " << found << ", expected " << low << " to "
                            << MOST);
  }
  return static_cast<std::int32_t>(found);
}

namespace {

void expect_int8(const Arguments& arguments, const Tensor& tensor, std::uint32_t position) {
  if (tensor.type != ScalarType::CHAR) {
    arguments.reject(Text() << "argument " << position << " is " << type_name(tensor.type) << ", expected CHAR");
  }
}

void expect_plain(const Arguments& arguments, const Tensor& tensor, std::uint32_t position) {
  if (!is_contiguous(tensor)) {
    arguments.reject(Text() << "argument " << position << " is not contiguous, as which CMSIS-NN reads it");
  }
}

}  // namespace

const Tensor& take_int8(const Arguments& arguments, std::uint32_t position) {
  const Tensor& tensor = arguments.tensor(position);
  expect_int8(arguments, tensor, position);
  return tensor;
}

Tensor& take_int8_out(const Arguments& arguments, std::uint32_t position) {
  Tensor& tensor = arguments.out(position);
  expect_int8(arguments, tensor, position);
  return tensor;
}

const Tensor& take_plain(const Arguments& arguments, std::uint32_t position) {
  const Tensor& tensor = take_int8(arguments, position);
  expect_plain(arguments, tensor, position);
  return tensor;
}

Tensor& take_plain_out(const Arguments& arguments, std::uint32_t position) {
  Tensor& tensor = take_int8_out(arguments, position);
  expect_plain(arguments, tensor, position);
  return tensor;
}

const std::int32_t* take_int32(const Arguments& arguments, std::uint32_t position, std::uint32_t elements) {
  if (arguments.is_none(position)) return nullptr;
  const Tensor& tensor = arguments.tensor(position);
  if (tensor.type != ScalarType::INT || tensor.elements != elements) {
    arguments.reject(Text() << "argument " << position << " is not " << elements << " of INT");
  }
  return reinterpret_cast<const std::int32_t*>(tensor.data);
}

bool is_channels_last(const Tensor& tensor) {
  if (tensor.rank != 4) return false;
  // Dimensions of size 1 may be anywhere.
  constexpr std::uint8_t ORDER[] = {0, 2, 3, 1};
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (tensor.sizes[tensor.dim_order[i]] == 1) continue;
    while (tensor.sizes[ORDER[at]] == 1) ++at;
    if (tensor.dim_order[i] != ORDER[at++]) return false;
  }
  return true;
}

Image image_of(const Arguments& arguments, const Tensor& tensor, Form form, const char* which) {
  if (tensor.rank != 4 || (form == Form::NHWC ? !is_contiguous(tensor) : !is_channels_last(tensor))) {
    arguments.reject(Text() << which << " is not "
                            << (form == Form::NHWC ? "[N, H, W, C], contiguous" : "[N, C, H, W] in channels_last"));
  }
  const std::int32_t* sizes = tensor.sizes;
  return form == Form::NHWC ? Image{sizes[0], sizes[1], sizes[2], sizes[3]}
                            : Image{sizes[0], sizes[2], sizes[3], sizes[1]};
}

}  // namespace ethos_hil
