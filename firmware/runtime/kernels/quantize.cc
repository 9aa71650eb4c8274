#include "runtime/kernels/quantize.h"

#include <limits>

namespace ethos_hil {

namespace {

// Argument positions that both families share.
enum : std::uint32_t { INPUT, SCALE, ZERO_POINT, QUANT_MIN, QUANT_MAX, DTYPE, AFTER_DTYPE };

struct Parameters {
  float scale;
  std::int32_t zero_point;
  std::int64_t quant_min;
  std::int64_t quant_max;
};

Parameters take_parameters(const Arguments& arguments, const Tensor& quantized) {
  const std::int64_t zero_point = arguments.integer(ZERO_POINT);
  if (zero_point < INT32_MIN || zero_point > INT32_MAX) {
    arguments.reject(Text() << "zero point " << zero_point << " has more than 32 bits");
  }
  const Parameters parameters{static_cast<float>(arguments.real(SCALE)), static_cast<std::int32_t>(zero_point),
                              arguments.integer(QUANT_MIN), arguments.integer(QUANT_MAX)};
  if (arguments.integer(DTYPE) != static_cast<std::int64_t>(quantized.type)) {
    arguments.reject(Text() << "dtype argument is " << arguments.integer(DTYPE) << ", the tensor is "
                            << type_name(quantized.type));
  }
  return parameters;
}

void check_pair(const Arguments& arguments, const Tensor& in, const Tensor& out) {
  if (!same_shape(in, out)) arguments.reject(Text() << "input and output differ in shape");
  // The loops are flat: they work for any layout, if input and output have the same one.
  if (!same_layout(in, out)) arguments.reject(Text() << "input and output differ in dim_order");
}

[[noreturn]] void reject_types(const Arguments& arguments, const Tensor& in, const Tensor& out) {
  arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
}

template <typename T>
void quantize(const Arguments& arguments, const Tensor& in, const Parameters& p, Tensor& out) {
  using Limits = std::numeric_limits<T>;
  if (p.quant_min < Limits::min() || p.quant_max > Limits::max() || p.quant_min > p.quant_max) {
    arguments.reject(Text() << "range " << p.quant_min << " to " << p.quant_max << " does not fit "
                            << type_name(out.type));
  }
  // All in float, as upstream: also the sum with the zero point, which is rounded for values beyond 2^24.
  const float inverse = 1.0f / p.scale;
  const auto zero_point = static_cast<float>(p.zero_point);
  const auto low = static_cast<std::int32_t>(p.quant_min);
  const auto high = static_cast<std::int32_t>(p.quant_max);
  const auto* from = reinterpret_cast<const float*>(in.data);
  auto* to = reinterpret_cast<T*>(out.data);
  for (std::uint32_t i = 0; i < in.elements; ++i) {
    const float value = zero_point + __builtin_nearbyintf(inverse * from[i]);
    // Bounds have at most 32 bits, so a value beyond +-2^31 always becomes one of them.
    std::int32_t whole;
    if (value >= 2147483648.0f) {
      whole = high;
    } else if (value >= -2147483648.0f) {
      whole = static_cast<std::int32_t>(value);
    } else {
      whole = low;  // and NaN
    }
    whole = whole < low ? low : whole;
    to[i] = static_cast<T>(whole > high ? high : whole);
  }
}

template <typename T>
void dequantize(const Tensor& in, const Parameters& p, Tensor& out) {
  const auto* from = reinterpret_cast<const T*>(in.data);
  auto* to = reinterpret_cast<float*>(out.data);
  for (std::uint32_t i = 0; i < in.elements; ++i) {
    // The difference has 32 bits, as upstream. It is unsigned, so that it wraps where int would be undefined.
    const auto difference =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(from[i]) - static_cast<std::uint32_t>(p.zero_point));
    to[i] = static_cast<float>(difference) * p.scale;
  }
}

}  // namespace

void quantize_per_tensor(const Arguments& arguments) {
  arguments.expect_count(AFTER_DTYPE + 2);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(AFTER_DTYPE);
  const Parameters parameters = take_parameters(arguments, out);
  check_pair(arguments, in, out);
  if (in.type != ScalarType::FLOAT) reject_types(arguments, in, out);
  switch (out.type) {
    case ScalarType::CHAR:
      return quantize<std::int8_t>(arguments, in, parameters, out);
    case ScalarType::BYTE:
      return quantize<std::uint8_t>(arguments, in, parameters, out);
    case ScalarType::SHORT:
      return quantize<std::int16_t>(arguments, in, parameters, out);
    case ScalarType::UINT16:
      return quantize<std::uint16_t>(arguments, in, parameters, out);
    case ScalarType::INT:
      return quantize<std::int32_t>(arguments, in, parameters, out);
    default:
      reject_types(arguments, in, out);
  }
}

void dequantize_per_tensor(const Arguments& arguments) {
  // The quantized_decomposed family has an out_dtype (or none) before the outputs; the cortex_m family has none.
  const Tensor& in = arguments.tensor(INPUT);
  const Parameters parameters = take_parameters(arguments, in);
  std::uint32_t out_at = AFTER_DTYPE;
  if (arguments.count() == AFTER_DTYPE + 3) ++out_at;
  arguments.expect_count(out_at + 2);
  Tensor& out = arguments.out(out_at);
  if (out_at != AFTER_DTYPE && !arguments.is_none(AFTER_DTYPE) &&
      arguments.integer(AFTER_DTYPE) != static_cast<std::int64_t>(out.type)) {
    arguments.reject(Text() << "out_dtype is " << arguments.integer(AFTER_DTYPE) << ", the output is "
                            << type_name(out.type));
  }
  check_pair(arguments, in, out);
  if (out.type != ScalarType::FLOAT) reject_types(arguments, in, out);
  switch (in.type) {
    case ScalarType::CHAR:
      return dequantize<std::int8_t>(in, parameters, out);
    case ScalarType::BYTE:
      return dequantize<std::uint8_t>(in, parameters, out);
    case ScalarType::SHORT:
      return dequantize<std::int16_t>(in, parameters, out);
    case ScalarType::UINT16:
      return dequantize<std::uint16_t>(in, parameters, out);
    case ScalarType::INT:
      return dequantize<std::int32_t>(in, parameters, out);
    default:
      reject_types(arguments, in, out);
  }
}

}  // namespace ethos_hil
