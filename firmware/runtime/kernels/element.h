// One element of a tensor, as a type wide enough to compute in: an integer, a float or a double. Kernels that need not
// be fast read and write through these, so that one loop serves every element type.
//
// Conversions are those of C++. Where C++ leaves a conversion of floats undefined (NaN, out of range), NaN becomes 0
// and other values saturate. A bool is written as 0 or 1, and any non-zero value reads as true. Half and bfloat16 are
// computed as floats and rounded to nearest, ties to even, as upstream does.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/tensor.h"

namespace ethos_hil {

// T is std::int64_t, float or double. Null for a type that has no such element (only BOOL, BYTE, CHAR, SHORT, INT,
// LONG, HALF, BFLOAT16, FLOAT and DOUBLE have).
template <typename T>
using Load = T (*)(const std::uint8_t* from);
template <typename T>
using Store = void (*)(std::uint8_t* to, T value);
template <typename T>
Load<T> load_as(ScalarType type);
template <typename T>
Store<T> store_as(ScalarType type);

bool is_floating(ScalarType type);
// True for BOOL too.
bool is_integral(ScalarType type);

// The type in which upstream computes with two types: promoteTypes of runtime/core/exec_aten/util/scalar_type_util.h.
// Only for types that have elements here.
ScalarType promote(ScalarType a, ScalarType b);

// Returns an integer as an element of `type` would store it.
std::int64_t wrap(ScalarType type, std::int64_t value);

// Sums and products of integers, modulo 2^64.
inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <typename T>
T plus(T a, T b) {
  return a + b;
}
template <typename T>
T minus(T a, T b) {
  return a - b;
}
template <typename T>
T times(T a, T b) {
  return a * b;
}

template <typename T>
bool is_nan(T value) {
  return value != value;
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds as floats. The upper one is one past the largest value, because a float holds that exactly.
    constexpr auto low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From past = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (is_nan(value)) return 0;
    if (value < low) return std::numeric_limits<To>::min();
    if (value >= past) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ethos_hil
