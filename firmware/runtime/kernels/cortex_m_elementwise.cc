#include "runtime/kernels/cortex_m_elementwise.h"

#include <limits>
#include <utility>

#include "runtime/kernels/cortex_m.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

// Bits that operands of a sum are shifted up by before they are scaled.
constexpr std::int32_t HEADROOM = 20;

void expect_alike(const Arguments& arguments, const Tensor& a, const Tensor& b) {
  if (!same_shape(a, b)) arguments.reject(Text() << "operands and result differ in shape");
  if (!same_layout(a, b)) arguments.reject(Text() << "operands and result differ in dim_order");
}

// How often the second operand of a sum or product is repeated along the first one's memory: once; or for each position
// of an image, if it has one number for each channel. The larger operand becomes the first.
std::uint32_t pair_up(const Arguments& arguments, const Tensor*& a, const Tensor*& b, const Tensor& out) {
  if (same_shape(*a, *b)) {
    expect_alike(arguments, *a, *b);
    expect_alike(arguments, *a, out);
    return a->elements;
  }
  if (a->elements < b->elements) std::swap(a, b);
  const bool by_channel = a->rank == 4 && b->rank == 4 && a->sizes[1] == b->sizes[1] &&
                          b->elements == static_cast<std::uint32_t>(b->sizes[1]);
  if (!by_channel) arguments.reject(Text() << "operands broadcast along more than the positions of an image");
  if (!is_channels_last(*a)) arguments.reject(Text() << "the image is not in channels_last");
  expect_alike(arguments, *a, out);
  return b->elements;
}

template <typename Function>
void for_each_pair(const Tensor& a, const Tensor& b, Tensor& out, std::uint32_t period, Function function) {
  const std::int8_t* first = int8_of(a);
  const std::int8_t* second = int8_of(b);
  std::int8_t* to = int8_of(out);
  for (std::uint32_t start = 0; start < out.elements; start += period) {
    for (std::uint32_t i = 0; i < period; ++i) to[start + i] = function(first[start + i], second[i]);
  }
}

template <typename T>
void divide(const Tensor& a, std::int32_t a_zero, const Tensor& b, std::int32_t b_zero, std::int32_t zero, float scale,
            Tensor& out) {
  constexpr auto low = static_cast<float>(std::numeric_limits<T>::min());
  constexpr auto high = static_cast<float>(std::numeric_limits<T>::max());
  const auto* first = reinterpret_cast<const T*>(a.data);
  const auto* second = reinterpret_cast<const T*>(b.data);
  auto* to = reinterpret_cast<T*>(out.data);
  for (std::uint32_t i = 0; i < out.elements; ++i) {
    const std::int32_t divisor = second[i] - b_zero;
    const float quotient = divisor == 0 ? 0.0f : static_cast<float>(first[i] - a_zero) / static_cast<float>(divisor);
    const float value = __builtin_roundf(quotient * scale) + static_cast<float>(zero);
    to[i] = static_cast<T>(value < low ? low : value > high ? high : value);
  }
}

template <typename Choose>
void choose_each(const Arguments& arguments, Choose choose) {
  enum : std::uint32_t { A, B, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& a = take_int8(arguments, A);
  const Tensor& b = take_int8(arguments, B);
  Tensor& out = take_int8_out(arguments, OUT);
  if (same_shape(a, b)) {
    expect_alike(arguments, a, b);
    expect_alike(arguments, a, out);
    return for_each_pair(a, b, out, out.elements, choose);
  }
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&out)}) {
    if (tensor->rank > 4 || !is_contiguous(*tensor)) {
      arguments.reject(Text() << "operands that broadcast have up to four dimensions and are contiguous");
    }
  }
  const View to = view_of(out);
  View views[] = {view_of(a), view_of(b)};
  Walk walk(3);
  for (View& view : views) expand(arguments, view, to.sizes, to.rank);
  if (out.elements == 0) return;
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    const std::uint32_t strides[] = {views[0].strides[i], views[1].strides[i], to.strides[i]};
    walk.add(to.sizes[i], strides);
  }
  do {
    int8_of(out)[walk.offset(2)] = choose(int8_of(a)[walk.offset(0)], int8_of(b)[walk.offset(1)]);
  } while (walk.next());
}

}  // namespace

void quantized_add(const Arguments& arguments) {
  enum : std::uint32_t {
    A,
    A_ZERO,
    A_MULTIPLIER,
    A_SHIFT,
    B,
    B_ZERO,
    B_MULTIPLIER,
    B_SHIFT,
    ZERO,
    MULTIPLIER,
    SHIFT,
    LOW,
    HIGH,
    OUT,
    COUNT = OUT + 2
  };
  arguments.expect_count(COUNT);
  const Tensor* a = &take_int8(arguments, A);
  const Tensor* b = &take_int8(arguments, B);
  Tensor& out = take_int8_out(arguments, OUT);
  std::int32_t a_zero = take_zero_point(arguments, A_ZERO);
  std::int32_t b_zero = take_zero_point(arguments, B_ZERO);
  Scale a_scale = take_scale(arguments, A_MULTIPLIER, A_SHIFT);
  Scale b_scale = take_scale(arguments, B_MULTIPLIER, B_SHIFT);
  const std::int32_t zero = take_zero_point(arguments, ZERO);
  const Scale scale = take_scale(arguments, MULTIPLIER, SHIFT);
  const Range range = take_range(arguments, LOW, HIGH);
  const Tensor* given = a;
  const std::uint32_t period = pair_up(arguments, a, b, out);
  if (a != given) {
    std::swap(a_zero, b_zero);
    std::swap(a_scale, b_scale);
  }
  for_each_pair(*a, *b, out, period, [&](std::int8_t x, std::int8_t y) {
    const std::int32_t first = requantize(wrapping_shift(x - a_zero, HEADROOM), a_scale);
    const std::int32_t second = requantize(wrapping_shift(y - b_zero, HEADROOM), b_scale);
    return range.clamp(wrapping_sum(requantize(wrapping_sum(first, second), scale), zero));
  });
}

void quantized_mul(const Arguments& arguments) {
  enum : std::uint32_t { A, A_ZERO, B, B_ZERO, ZERO, MULTIPLIER, SHIFT, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor* a = &take_int8(arguments, A);
  const Tensor* b = &take_int8(arguments, B);
  Tensor& out = take_int8_out(arguments, OUT);
  std::int32_t a_zero = take_zero_point(arguments, A_ZERO);
  std::int32_t b_zero = take_zero_point(arguments, B_ZERO);
  const std::int32_t zero = take_zero_point(arguments, ZERO);
  const Scale scale = take_scale(arguments, MULTIPLIER, SHIFT);
  const Tensor* given = a;
  const std::uint32_t period = pair_up(arguments, a, b, out);
  if (a != given) std::swap(a_zero, b_zero);
  for_each_pair(*a, *b, out, period, [&](std::int8_t x, std::int8_t y) {
    return INT8.clamp(wrapping_sum(requantize((x - a_zero) * (y - b_zero), scale), zero));
  });
}

void quantized_div(const Arguments& arguments) {
  enum : std::uint32_t { A, A_ZERO, B, B_ZERO, ZERO, SCALE, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& a = arguments.tensor(A);
  const Tensor& b = arguments.tensor(B);
  Tensor& out = arguments.out(OUT);
  if (out.type != ScalarType::CHAR && out.type != ScalarType::SHORT) {
    arguments.reject(Text() << "the result is " << type_name(out.type) << ", expected CHAR or SHORT");
  }
  for (const Tensor* tensor : {&a, &b}) {
    arguments.expect_type(*tensor, out.type, "an operand");
    expect_alike(arguments, *tensor, out);
  }
  const auto scale = static_cast<float>(arguments.real(SCALE));
  if (!(scale >= 0.0f && scale <= std::numeric_limits<float>::max())) {
    arguments.reject(Text() << "the scale is not a positive number");
  }
  const auto zero = [&](std::uint32_t position) { return take_integer(arguments, position, INT16_MIN, INT16_MAX); };
  if (out.type == ScalarType::CHAR) {
    divide<std::int8_t>(a, zero(A_ZERO), b, zero(B_ZERO), zero(ZERO), scale, out);
  } else {
    divide<std::int16_t>(a, zero(A_ZERO), b, zero(B_ZERO), zero(ZERO), scale, out);
  }
}

void quantized_activation(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, TABLE, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& in = take_int8(arguments, INPUT);
  const Tensor& table = take_int8(arguments, TABLE);
  Tensor& out = take_int8_out(arguments, OUT);
  if (table.elements != 256) arguments.reject(Text() << "the table has " << table.elements << " entries, not 256");
  expect_alike(arguments, in, out);
  for (std::uint32_t i = 0; i < in.elements; ++i) int8_of(out)[i] = int8_of(table)[int8_of(in)[i] + 128];
}

void quantized_minimum(const Arguments& arguments) {
  choose_each(arguments, [](std::int8_t a, std::int8_t b) { return a < b ? a : b; });
}

void quantized_maximum(const Arguments& arguments) {
  choose_each(arguments, [](std::int8_t a, std::int8_t b) { return a > b ? a : b; });
}

}  // namespace ethos_hil
