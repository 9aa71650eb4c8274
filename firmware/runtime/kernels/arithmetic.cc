#include "runtime/kernels/arithmetic.h"

#include <cmath>

#include "runtime/kernels/compare.h"

namespace ethos_hil {

namespace {

using Whole = std::int64_t;

template <typename T>
T add(T a, T b, T alpha) {
  return plus(a, times(alpha, b));
}

template <typename T>
T subtract(T a, T b, T alpha) {
  return minus(a, times(alpha, b));
}

template <typename T>
T multiply(T a, T b, T) {
  return times(a, b);
}

template <typename T>
T divide(T a, T b, T) {
  return a / b;
}

// Returns 0 - a where a / -1 would overflow.
Whole quotient(Whole a, Whole b) { return b == -1 ? minus(0, a) : a / b; }
Whole rest(Whole a, Whole b) { return b == -1 ? 0 : a % b; }

Whole trunc_whole(Whole a, Whole b, Whole) { return quotient(a, b); }
Whole floor_whole(Whole a, Whole b, Whole) { return quotient(a, b) - ((a < 0) != (b < 0) && rest(a, b) != 0 ? 1 : 0); }
Whole remainder_whole(Whole a, Whole b, Whole) { return rest(a, b); }

float modulo(float a, float b) { return fmodf(a, b); }
double modulo(double a, double b) { return fmod(a, b); }

template <typename T>
T trunc_real(T a, T b, T) {
  return std::trunc(a / b);
}

template <typename T>
T floor_real(T a, T b, T) {
  if (b == 0) return std::signbit(a) ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  const T left = modulo(a, b);
  const T whole = (a - left) / b;
  return left != 0 && std::signbit(b) != std::signbit(left) ? whole - 1 : whole;
}

template <typename T>
T fmod_real(T a, T b, T) {
  return modulo(a, b);
}

template <typename T>
T remainder_real(T a, T b, T) {
  auto left = static_cast<float>(modulo(a, b));
  if ((a < 0) != (b < 0) && left != 0) left = static_cast<float>(left + b);
  return left;
}

// Rounded once (kernels/rounded.h).
float power_single(float a, float b, float) {
  return static_cast<float>(pow(static_cast<double>(a), static_cast<double>(b)));
}

float atan2_single(float a, float b, float) {
  return static_cast<float>(atan2(static_cast<double>(a), static_cast<double>(b)));
}

template <typename T>
T larger(T a, T b) {
  return is_nan(a) || !(is_nan(b) || a < b) ? a : b;
}

template <typename T>
T smaller(T a, T b) {
  return is_nan(a) || !(is_nan(b) || b < a) ? a : b;
}

template <typename T>
T maximum(T a, T b, T) {
  return larger(a, b);
}

template <typename T>
T minimum(T a, T b, T) {
  return smaller(a, b);
}

template <typename T>
T between(T a, T low, T high) {
  return smaller(larger(a, low), high);
}

template <typename T>
T leaky_relu(T a, T slope, T) {
  return a >= 0 ? a : a * slope;
}

template <typename T>
T choose(T a, T b, T condition) {
  return condition != 0 ? a : b;
}

Whole bitwise_and(Whole a, Whole b, Whole) { return a & b; }
Whole bitwise_or(Whole a, Whole b, Whole) { return a | b; }
Whole bitwise_xor(Whole a, Whole b, Whole) { return a ^ b; }
Whole complement(Whole a, Whole, Whole) { return ~a; }

const Operation FLOOR_DIVIDE{Typing::DIVIDING, 2, 2, floor_whole, floor_real, floor_real};
const Operation TRUNC_DIVIDE{Typing::DIVIDING, 2, 2, trunc_whole, trunc_real, trunc_real};
const Operation COMPLEMENT{Typing::BITWISE, 1, 1, complement, nullptr, nullptr};
const Operation CLAMP{Typing::PROMOTED, 3, 3, between, between, between};
const Operation CHOOSE{Typing::PROMOTED, 3, 2, choose, choose, choose};

}  // namespace

const Operation ADD{Typing::PROMOTED, 3, 2, add, add, add};
const Operation SUBTRACT{Typing::PROMOTED, 3, 2, subtract, subtract, subtract};
const Operation MULTIPLY{Typing::PROMOTED, 2, 2, multiply, multiply, multiply};
const Operation DIVIDE{Typing::FLOATING, 2, 2, nullptr, divide, divide};
const Operation FMOD{Typing::POWER, 2, 2, nullptr, fmod_real, fmod_real};
const Operation REMAINDER{Typing::DIVIDING, 2, 2, remainder_whole, remainder_real, remainder_real};
const Operation POWER{Typing::POWER, 2, 2, nullptr, power_single, nullptr};
const Operation ATAN2{Typing::FLOATING, 2, 2, nullptr, atan2_single, nullptr};
const Operation MAXIMUM{Typing::PROMOTED, 2, 2, maximum, maximum, maximum};
const Operation MINIMUM{Typing::PROMOTED, 2, 2, minimum, minimum, minimum};
const Operation BITWISE_AND{Typing::BITWISE, 2, 2, bitwise_and, nullptr, nullptr};
const Operation BITWISE_OR{Typing::BITWISE, 2, 2, bitwise_or, nullptr, nullptr};
const Operation BITWISE_XOR{Typing::BITWISE, 2, 2, bitwise_xor, nullptr, nullptr};
const Operation HARDTANH{Typing::SAME, 3, 1, between, between, between};
const Operation LEAKY_RELU{Typing::SAME, 2, 1, nullptr, leaky_relu, leaky_relu};

void divide_mode(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, OTHER, MODE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Operation* operation = &DIVIDE;
  if (!arguments.is_none(MODE)) {
    if (arguments.is_text(MODE, "trunc")) {
      operation = &TRUNC_DIVIDE;
    } else if (arguments.is_text(MODE, "floor")) {
      operation = &FLOOR_DIVIDE;
    } else {
      arguments.reject(Text() << "the rounding mode is neither none nor \"trunc\" nor \"floor\"");
    }
  }
  run_elementwise(arguments, *operation, {{INPUT, OTHER}, OUT});
}

void bitwise_not(const Arguments& arguments) {
  enum : std::uint8_t { INPUT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const bool is_bool = arguments.tensor(INPUT).type == ScalarType::BOOL;
  run_elementwise(arguments, is_bool ? LOGICAL_NOT : COMPLEMENT, {{INPUT}, OUT});
}

void clamp(const Arguments& arguments) {
  enum : std::uint8_t { INPUT, LOWER, UPPER, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const bool has_lower = !arguments.is_none(LOWER);
  const bool has_upper = !arguments.is_none(UPPER);
  if (!has_lower && !has_upper) arguments.reject(Text() << "neither a lower nor an upper limit is given");
  for (const std::uint8_t limit : {LOWER, UPPER}) {
    const ScalarType type = arguments.out(OUT).type;
    if (arguments.kind(limit) == ValueKind::INT && is_integral(type) &&
        wrap(type, arguments.integer(limit)) != arguments.integer(limit)) {
      arguments.reject(Text() << "limit " << arguments.integer(limit) << " does not fit " << type_name(type));
    }
  }
  if (has_lower && has_upper) return run_elementwise(arguments, CLAMP, {{INPUT, LOWER, UPPER}, OUT});
  if (has_lower) return run_elementwise(arguments, MAXIMUM, {{INPUT, LOWER}, OUT});
  run_elementwise(arguments, MINIMUM, {{INPUT, UPPER}, OUT});
}

void where(const Arguments& arguments) {
  enum : std::uint8_t { CONDITION, INPUT, OTHER, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const ScalarType type = arguments.tensor(CONDITION).type;
  if (type != ScalarType::BOOL && type != ScalarType::BYTE) {
    arguments.reject(Text() << "argument 0 is " << type_name(type) << ", expected BOOL");
  }
  run_elementwise(arguments, CHOOSE, {{INPUT, OTHER, CONDITION}, OUT});
}

}  // namespace ethos_hil
