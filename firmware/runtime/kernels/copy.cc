#include "runtime/kernels/copy.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace ethos_hil {

namespace {

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds as floats; the upper one is one past the largest value, which a float can hold exactly.
    constexpr auto low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From past = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (value != value) return 0;
    if (value < low) return std::numeric_limits<To>::min();
    if (value >= past) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Walks all elements in the output's memory order and keeps track of where each is in the input.
class Walk {
 public:
  Walk(const Tensor& in, const Tensor& out) : out_(out) { element_strides(in, strides_); }

  std::uint32_t in_offset() const { return offset_; }

  void next() {
    for (std::uint32_t i = out_.rank; i > 0; --i) {
      const std::uint8_t dimension = out_.dim_order[i - 1];
      offset_ += strides_[dimension];
      if (++position_[dimension] < static_cast<std::uint32_t>(out_.sizes[dimension])) return;
      offset_ -= strides_[dimension] * position_[dimension];
      position_[dimension] = 0;
    }
  }

 private:
  const Tensor& out_;
  std::uint32_t strides_[MAX_RANK] = {};
  std::uint32_t position_[MAX_RANK] = {};
  std::uint32_t offset_ = 0;
};

template <typename From, typename To>
void copy_elements(const Tensor& in, Tensor& out) {
  const auto* from = reinterpret_cast<const From*>(in.data);
  auto* to = reinterpret_cast<To*>(out.data);
  if (same_layout(in, out)) {
    for (std::uint32_t i = 0; i < out.elements; ++i) to[i] = convert<To>(from[i]);
    return;
  }
  Walk walk(in, out);
  for (std::uint32_t i = 0; i < out.elements; ++i, walk.next()) to[i] = convert<To>(from[walk.in_offset()]);
}

[[noreturn]] void reject_types(const Arguments& arguments, const Tensor& in, const Tensor& out) {
  arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
}

template <typename From>
void copy_from(const Arguments& arguments, const Tensor& in, Tensor& out) {
  switch (out.type) {
    case ScalarType::BOOL:
      return copy_elements<From, bool>(in, out);
    case ScalarType::BYTE:
      return copy_elements<From, std::uint8_t>(in, out);
    case ScalarType::CHAR:
      return copy_elements<From, std::int8_t>(in, out);
    case ScalarType::SHORT:
      return copy_elements<From, std::int16_t>(in, out);
    case ScalarType::INT:
      return copy_elements<From, std::int32_t>(in, out);
    case ScalarType::LONG:
      return copy_elements<From, std::int64_t>(in, out);
    case ScalarType::FLOAT:
      return copy_elements<From, float>(in, out);
    default:
      reject_types(arguments, in, out);
  }
}

void copy(const Arguments& arguments, const Tensor& in, Tensor& out) {
  if (!same_shape(in, out)) arguments.reject(Text() << "input and output differ in shape");
  switch (in.type) {
    case ScalarType::BOOL:
      // Any non-zero byte is true; as bool it could not be read safely.
      return copy_from<std::uint8_t>(arguments, in, out);
    case ScalarType::BYTE:
      return copy_from<std::uint8_t>(arguments, in, out);
    case ScalarType::CHAR:
      return copy_from<std::int8_t>(arguments, in, out);
    case ScalarType::SHORT:
      return copy_from<std::int16_t>(arguments, in, out);
    case ScalarType::INT:
      return copy_from<std::int32_t>(arguments, in, out);
    case ScalarType::LONG:
      return copy_from<std::int64_t>(arguments, in, out);
    case ScalarType::FLOAT:
      return copy_from<float>(arguments, in, out);
    default:
      reject_types(arguments, in, out);
  }
}

}  // namespace

void to_dim_order_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, NON_BLOCKING, DIM_ORDER, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  Tensor& out = arguments.out(OUT);
  if (!arguments.is_none(DIM_ORDER)) {
    bool equal = arguments.list_size(DIM_ORDER) == out.rank;
    for (std::uint32_t i = 0; equal && i < out.rank; ++i) {
      equal = arguments.list_item(DIM_ORDER, i) == out.dim_order[i];
    }
    if (!equal) arguments.reject(Text() << "dim_order argument differs from the output's dim_order");
  }
  copy(arguments, arguments.tensor(INPUT), out);
}

void clone(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, MEMORY_FORMAT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  if (in.type != out.type) reject_types(arguments, in, out);
  copy(arguments, in, out);
}

namespace {

// The same bytes under another shape.
void copy_bytes(const Arguments& arguments, const Tensor& in, Tensor& out) {
  if (in.type != out.type) reject_types(arguments, in, out);
  if (in.elements != out.elements) {
    arguments.reject(Text() << "input has " << in.elements << " elements, output " << out.elements);
  }
  if (!is_contiguous(in) || !is_contiguous(out)) arguments.reject(Text() << "a tensor's dim_order is not contiguous");
  std::memmove(out.data, in.data, in.nbytes);
}

// `longer` must be `shorter` with a 1 wherever `added` has a bit.
void check_added(const Arguments& arguments, const Tensor& shorter, const Tensor& longer, std::uint32_t added) {
  std::uint32_t kept = 0;
  bool equal = true;
  for (std::uint32_t i = 0; equal && i < longer.rank; ++i) {
    if ((added >> i & 1u) != 0) {
      equal = longer.sizes[i] == 1;
    } else {
      equal = kept < shorter.rank && shorter.sizes[kept] == longer.sizes[i];
      ++kept;
    }
  }
  if (!equal || kept != shorter.rank) arguments.reject(Text() << "shapes of input and output do not belong together");
}

}  // namespace

void view_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZES, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  copy_bytes(arguments, arguments.tensor(INPUT), arguments.out(OUT));
}

void unsqueeze_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  check_added(arguments, in, out, arguments.dimension_bit(arguments.integer(DIMENSION), out.rank));
  copy_bytes(arguments, in, out);
}

void squeeze_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSIONS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  // Of the dimensions named, those of size 1 go and the others stay.
  std::uint32_t removed = 0;
  for (std::uint32_t i = 0; i < arguments.list_size(DIMENSIONS); ++i) {
    removed |= arguments.dimension_bit(arguments.list_item(DIMENSIONS, i), in.rank);
  }
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    if (in.sizes[i] != 1) removed &= ~(1u << i);
  }
  check_added(arguments, out, in, removed);
  copy_bytes(arguments, in, out);
}

}  // namespace ethos_hil
