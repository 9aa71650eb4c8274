#include "runtime/kernels/element.h"

#include <cstring>

namespace ethos_hil {

namespace {

float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// IEEE 754 binary16, stored as its bits.
struct Half {
  std::uint16_t bits;

  explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1Fu;
    const std::uint32_t fraction = bits & 0x3FFu;
    // Subnormals are multiples of 2^-24.
    if (exponent == 0)
      return sign != 0 ? -0x1p-24f * static_cast<float>(fraction) : 0x1p-24f * static_cast<float>(fraction);
    return float_of(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13);
  }

  explicit Half(float value) {
    const std::uint32_t whole = bits_of(value);
    const std::uint32_t magnitude = whole & 0x7FFFFFFFu;
    const auto sign = static_cast<std::uint16_t>(whole >> 16 & 0x8000u);
    if (magnitude > 0x7F800000u) {
      bits = sign | 0x7E00u;
    } else if (magnitude >= 0x477FF000u) {  // 65520, which is nearer to 2^16 than to 65504
      bits = sign | 0x7C00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds at 2^-24
      bits = static_cast<std::uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000u));
    } else {
      const std::uint32_t odd = magnitude >> 13 & 1u;
      bits = static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
    }
  }
};

// bfloat16: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits;

  explicit operator float() const { return float_of(std::uint32_t{bits} << 16); }

  explicit BFloat16(float value) {
    const std::uint32_t whole = bits_of(value);
    bits = is_nan(value) ? 0x7FC0u : static_cast<std::uint16_t>((whole + 0x7FFFu + (whole >> 16 & 1u)) >> 16);
  }
};

template <typename E>
constexpr bool IS_SMALL_FLOAT = std::is_same_v<E, Half> || std::is_same_v<E, BFloat16>;

template <typename T, typename E>
T load_element(const std::uint8_t* from) {
  if constexpr (std::is_same_v<E, bool>) {
    // Any non-zero byte is true. Reading it as a bool would be undefined.
    return *from != 0 ? T{1} : T{0};
  } else if constexpr (IS_SMALL_FLOAT<E>) {
    return convert<T>(static_cast<float>(*reinterpret_cast<const E*>(from)));
  } else {
    return convert<T>(*reinterpret_cast<const E*>(from));
  }
}

template <typename T, typename E>
void store_element(std::uint8_t* to, T value) {
  if constexpr (IS_SMALL_FLOAT<E>) {
    *reinterpret_cast<E*>(to) = E(static_cast<float>(value));
  } else {
    *reinterpret_cast<E*>(to) = convert<E>(value);
  }
}

// Calls `take` with a value of the element's C++ type. Returns its result, or null for types that have none.
template <typename Result, typename Take>
Result with_type(ScalarType type, const Take& take) {
  switch (type) {
    case ScalarType::BOOL:
      return take(static_cast<bool*>(nullptr));
    case ScalarType::BYTE:
      return take(static_cast<std::uint8_t*>(nullptr));
    case ScalarType::CHAR:
      return take(static_cast<std::int8_t*>(nullptr));
    case ScalarType::SHORT:
      return take(static_cast<std::int16_t*>(nullptr));
    case ScalarType::INT:
      return take(static_cast<std::int32_t*>(nullptr));
    case ScalarType::LONG:
      return take(static_cast<std::int64_t*>(nullptr));
    case ScalarType::HALF:
      return take(static_cast<Half*>(nullptr));
    case ScalarType::BFLOAT16:
      return take(static_cast<BFloat16*>(nullptr));
    case ScalarType::FLOAT:
      return take(static_cast<float*>(nullptr));
    case ScalarType::DOUBLE:
      return take(static_cast<double*>(nullptr));
    default:
      return nullptr;
  }
}

}  // namespace

template <typename T>
Load<T> load_as(ScalarType type) {
  return with_type<Load<T>>(
      type, [](auto* element) -> Load<T> { return load_element<T, std::remove_pointer_t<decltype(element)>>; });
}

template <typename T>
Store<T> store_as(ScalarType type) {
  return with_type<Store<T>>(
      type, [](auto* element) -> Store<T> { return store_element<T, std::remove_pointer_t<decltype(element)>>; });
}

template Load<std::int64_t> load_as(ScalarType);
template Load<float> load_as(ScalarType);
template Load<double> load_as(ScalarType);
template Store<std::int64_t> store_as(ScalarType);
template Store<float> store_as(ScalarType);
template Store<double> store_as(ScalarType);

bool is_floating(ScalarType type) {
  return type == ScalarType::FLOAT || type == ScalarType::DOUBLE || type == ScalarType::HALF ||
         type == ScalarType::BFLOAT16;
}

bool is_integral(ScalarType type) {
  return type == ScalarType::BOOL || type == ScalarType::BYTE || type == ScalarType::CHAR ||
         type == ScalarType::SHORT || type == ScalarType::INT || type == ScalarType::LONG;
}

ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a))
    return a == ScalarType::DOUBLE || b == ScalarType::DOUBLE ? ScalarType::DOUBLE : ScalarType::FLOAT;
  if (a == ScalarType::BOOL) return b;
  if (b == ScalarType::BOOL) return a;
  // No one-byte type can hold both BYTE and CHAR. The other types are numbered by size.
  if (element_size(a) == 1 && element_size(b) == 1) return ScalarType::SHORT;
  return element_size(a) > element_size(b) ? a : b;
}

std::int64_t wrap(ScalarType type, std::int64_t value) {
  switch (type) {
    case ScalarType::BOOL:
      return value != 0 ? 1 : 0;
    case ScalarType::BYTE:
      return static_cast<std::uint8_t>(value);
    case ScalarType::CHAR:
      return static_cast<std::int8_t>(value);
    case ScalarType::SHORT:
      return static_cast<std::int16_t>(value);
    case ScalarType::INT:
      return static_cast<std::int32_t>(value);
    default:
      return value;
  }
}

}  // namespace ethos_hil
