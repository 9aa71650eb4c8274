#include "runtime/kernels/unary.h"

#include "runtime/kernels/rounded.h"

namespace ethos_hil {

namespace {

using Whole = std::int64_t;

// C++17's <cmath> does not have it.
constexpr double SQRT_2 = 1.41421356237309504880;
constexpr double TWO_BY_SQRT_PI = 1.12837916709551257390;

Whole absolute_whole(Whole a, Whole, Whole) { return a < 0 ? minus(Whole{0}, a) : a; }
// -0.0 stays, as upstream.
template <typename T>
T absolute(T a, T, T) {
  return a < 0 ? -a : a;
}

Whole negate_whole(Whole a, Whole, Whole) { return minus(Whole{0}, a); }
template <typename T>
T negate(T a, T, T) {
  return -a;
}

template <typename T>
T relu(T a, T, T) {
  return is_nan(a) || a >= 0 ? a : 0;
}

template <typename T>
T sign(T a, T, T) {
  if (is_nan(a)) return a;
  return static_cast<T>((a > 0 ? 1 : 0) - (a < 0 ? 1 : 0));
}

template <typename T>
T ceil_real(T a, T, T) {
  return std::ceil(a);
}
template <typename T>
T floor_real(T a, T, T) {
  return std::floor(a);
}
template <typename T>
T trunc_real(T a, T, T) {
  return std::trunc(a);
}

Whole itself(Whole a, Whole, Whole) { return a; }
// Ties to even.
template <typename T>
T round_real(T a, T, T) {
  return a - std::floor(a) == T{0.5} ? std::round(a * T{0.5}) * T{2} : std::round(a);
}

// Upstream divides a double 1.0, and rounds the quotient to float.
float reciprocal_single(float a, float, float) { return static_cast<float>(1.0 / static_cast<double>(a)); }
double reciprocal_twofold(double a, double, double) { return 1.0 / a; }
float sqrt_single(float a, float, float) { return __builtin_sqrtf(a); }
double sqrt_twofold(double a, double, double) { return __builtin_sqrt(a); }
float rsqrt_single(float a, float, float) { return static_cast<float>(1.0 / static_cast<double>(__builtin_sqrtf(a))); }
double rsqrt_twofold(double a, double, double) { return 1.0 / __builtin_sqrt(a); }

template <double (*FUNCTION)(double)>
float call(float a, float, float) {
  return rounded<FUNCTION>(a);
}

float sigmoid(float a, float, float) { return 1.0f / (1.0f + rounded_exp(-a)); }

// Computed in double, as upstream's portable kernel: as a float, 1 + erf(x) has no digits left where erf(x) is near -1.
float gelu_exact(float a, float, float) {
  if (is_nan(a) || a - a == 0) {
    const auto x = static_cast<double>(a);
    return static_cast<float>(0.5 * x * (1.0 + erf(x * (SQRT_2 / 2))));
  }
  return a < 0 ? 0.0f : a;
}

float gelu_tanh(float a, float, float) {
  if (!is_nan(a) && a - a != 0) return a < 0 ? 0.0f : a;
  constexpr auto beta = static_cast<float>(SQRT_2 * TWO_BY_SQRT_PI * 0.5);
  constexpr float kappa = 0.044715f;
  const float inner = beta * (a + kappa * (a * a * a));
  return static_cast<float>(0.5 * static_cast<double>(a) * (1.0 + static_cast<double>(rounded_tanh(inner))));
}

template <double (*FUNCTION)(double)>
constexpr Operation of_floats() {
  return {Typing::FLOATING, 1, 1, nullptr, call<FUNCTION>, nullptr};
}

const Operation GELU_EXACT{Typing::SAME, 1, 1, nullptr, gelu_exact, nullptr};
const Operation GELU_TANH{Typing::SAME, 1, 1, nullptr, gelu_tanh, nullptr};

}  // namespace

const Operation ABS{Typing::SAME, 1, 1, absolute_whole, absolute, absolute};
const Operation NEGATE{Typing::SAME, 1, 1, negate_whole, negate, negate};
const Operation RELU{Typing::SAME, 1, 1, relu, relu, relu};
const Operation SIGN{Typing::SAME, 1, 1, sign, sign, sign};
const Operation CEIL{Typing::BY_FLOAT, 1, 1, nullptr, ceil_real, ceil_real};
const Operation FLOOR{Typing::BY_FLOAT, 1, 1, nullptr, floor_real, floor_real};
const Operation TRUNC{Typing::BY_FLOAT, 1, 1, nullptr, trunc_real, trunc_real};
const Operation ROUND{Typing::SAME, 1, 1, itself, round_real, round_real};
const Operation RECIPROCAL{Typing::FLOATING, 1, 1, nullptr, reciprocal_single, reciprocal_twofold};
const Operation SQRT{Typing::FLOATING, 1, 1, nullptr, sqrt_single, sqrt_twofold};
const Operation RSQRT{Typing::FLOATING, 1, 1, nullptr, rsqrt_single, rsqrt_twofold};
const Operation EXP = of_floats<exp>();
const Operation LOG = of_floats<log>();
const Operation LOG2 = of_floats<log2>();
const Operation LOG10 = of_floats<log10>();
const Operation SIN = of_floats<sin>();
const Operation COS = of_floats<cos>();
const Operation TANH = of_floats<tanh>();
const Operation ERF = of_floats<erf>();
const Operation SIGMOID{Typing::FLOATING, 1, 1, nullptr, sigmoid, nullptr};

void gelu(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, APPROXIMATE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const bool exact = arguments.is_text(APPROXIMATE, "none");
  if (!exact && !arguments.is_text(APPROXIMATE, "tanh")) {
    arguments.reject(Text() << "the approximation is neither \"none\" nor \"tanh\"");
  }
  run_elementwise(arguments, exact ? GELU_EXACT : GELU_TANH, {{INPUT}, OUT});
}

}  // namespace ethos_hil
