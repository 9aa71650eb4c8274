#include "runtime/kernels/cortex_m_softmax.h"

#include "runtime/kernels/cortex_m.h"

namespace ethos_hil {

namespace {

// Differences from the largest have 26 fraction bits; exponentials have 31, their sums 19.
constexpr std::int32_t DIFFERENCE_BITS = 26;
constexpr std::int32_t SUM_SHIFT = 12;
constexpr std::int32_t RESULT_BITS = 8;

// value * 2^exponent, as near as 32 bits have it.
std::int32_t saturating_shift(std::int32_t value, std::int32_t exponent) {
  const std::int64_t exact = std::int64_t{value} * (std::int64_t{1} << exponent);
  return static_cast<std::int32_t>(exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact);
}

// The product of fractions with 31 bits, where -1 * -1 is the largest there is.
std::int32_t fraction_product(std::int32_t a, std::int32_t b) {
  return a == INT32_MIN && b == INT32_MIN ? INT32_MAX : high_product(a, b);
}

// e^x of an x between -1/4 and 0, which has 31 fraction bits: four terms of its series around -1/8.
std::int32_t exp_near_zero(std::int32_t x) {
  constexpr std::int32_t EXP_OF_MINUS_EIGHTH = 1895147668;  // in 31 bits, as all of these
  constexpr std::int32_t THIRD = 715827883;
  const std::int32_t from_middle = x + (1 << 28);
  const std::int32_t square = fraction_product(from_middle, from_middle);
  const std::int32_t cube = fraction_product(square, from_middle);
  const std::int32_t fourth = fraction_product(square, square);
  const std::int32_t higher = fraction_product(rounded_quotient(fourth, 2) + cube, THIRD) + square;
  return EXP_OF_MINUS_EIGHTH + fraction_product(EXP_OF_MINUS_EIGHTH, from_middle + rounded_quotient(higher, 1));
}

// e^x of an x that is at most 0 and has DIFFERENCE_BITS fraction bits: that of its part below a quarter, times e^-0.25,
// e^-0.5, e^-1, ... for each further bit.
std::int32_t exp_of(std::int32_t x) {
  if (x == 0) return INT32_MAX;
  constexpr std::int32_t POWERS[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  constexpr std::int32_t QUARTER_BITS = DIFFERENCE_BITS - 2;
  const std::int32_t below = (x & ((1 << QUARTER_BITS) - 1)) - (1 << QUARTER_BITS);
  const std::int32_t quarters = (below - x) >> QUARTER_BITS;
  std::int32_t result = exp_near_zero(wrapping_shift(below, 31 - DIFFERENCE_BITS));
  for (std::uint32_t i = 0; i < sizeof POWERS / sizeof *POWERS; ++i) {
    if ((quarters >> i & 1) != 0) result = fraction_product(result, POWERS[i]);
  }
  return result;
}

// 1 / (1 + x) of a fraction, by Newton's method from 48/17 - 32/17 * d, where d is half of 1 + x, rounded.
std::int32_t inverse_of_one_plus(std::int32_t x) {
  constexpr std::int32_t START = 1515870810;   // 48/17 with 29 fraction bits
  constexpr std::int32_t SLOPE = -1010580540;  // -32/17
  const std::int64_t sum = std::int64_t{x} + INT32_MAX;
  const auto half = static_cast<std::int32_t>((sum + (sum >= 0 ? 1 : -1)) / 2);
  std::int32_t inverse = START + fraction_product(half, SLOPE);
  for (int i = 0; i < 3; ++i) {
    const std::int32_t error = (1 << 29) - fraction_product(half, inverse);
    inverse += saturating_shift(fraction_product(inverse, error), 2);
  }
  return saturating_shift(inverse, 1);
}

void softmax_of(const std::int8_t* in, std::uint32_t size, Scale scale, std::int32_t least, std::int8_t* to) {
  std::int32_t largest = INT8_MIN;
  for (std::uint32_t i = 0; i < size; ++i) largest = in[i] > largest ? in[i] : largest;
  const auto exponential = [&](std::int32_t difference) {
    return exp_of(fraction_product(wrapping_shift(difference, scale.shift), scale.multiplier));
  };
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::int32_t difference = in[i] - largest;
    if (difference >= least) sum = wrapping_sum(sum, rounded_quotient(exponential(difference), SUM_SHIFT));
  }
  // The sum is between 1 and 2 if its first bit is at the top. Without its sign bit that is what exceeds 1.
  const std::int32_t headroom = sum == 0 ? 32 : __builtin_clz(static_cast<std::uint32_t>(sum));
  const std::int32_t excess = wrapping_sum(sum > 0 ? wrapping_shift(sum, headroom) : 0, INT32_MIN);
  const std::int32_t inverse = inverse_of_one_plus(excess);
  const std::int32_t extra_bits = SUM_SHIFT - headroom + 31 - RESULT_BITS;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::int32_t difference = in[i] - largest;
    std::int32_t share = 0;
    if (difference >= least) share = rounded_quotient(fraction_product(inverse, exponential(difference)), extra_bits);
    to[i] = INT8.clamp(share + INT8_MIN);
  }
}

}  // namespace

void quantized_softmax(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, INPUT_ZERO, OUTPUT_ZERO, MULTIPLIER, SHIFT, LEAST, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& in = take_plain(arguments, INPUT);
  Tensor& out = take_plain_out(arguments, OUT);
  arguments.expect_same_shape(in, out);
  if (in.rank == 0 || arguments.dimension(arguments.integer(DIMENSION), in.rank) != in.rank - 1u) {
    arguments.reject(Text() << "dim is " << arguments.integer(DIMENSION) << ", not the last one");
  }
  take_integer(arguments, OUTPUT_ZERO, INT8_MIN, INT8_MIN);
  // CMSIS-NN shifts differences of int8 to the left only.
  const Scale scale{take_integer(arguments, MULTIPLIER, 0, INT32_MAX), take_integer(arguments, SHIFT, 0, 30)};
  const std::int32_t least = take_integer(arguments, LEAST, INT32_MIN, 0);
  const auto size = static_cast<std::uint32_t>(in.sizes[in.rank - 1u]);
  for (std::uint32_t start = 0; start < in.elements; start += size) {
    softmax_of(int8_of(in) + start, size, scale, least, int8_of(out) + start);
  }
}

}  // namespace ethos_hil
