#include "runtime/kernels/mean.h"

namespace ethos_hil {

namespace {

// Counts through some of a tensor's dimensions, the one added last fastest, and keeps track of where that is.
class Odometer {
 public:
  void add(std::uint32_t size, std::uint32_t stride, std::uint32_t other_stride = 0) {
    digits_[count_++] = {size, stride, other_stride, 0};
  }

  std::uint32_t offset() const { return offset_; }
  // The same in another tensor.
  std::uint32_t other_offset() const { return other_offset_; }

  // False, and back at the start, after the last position.
  bool next() {
    for (std::uint32_t i = count_; i > 0; --i) {
      Digit& digit = digits_[i - 1];
      offset_ += digit.stride;
      other_offset_ += digit.other_stride;
      if (++digit.position < digit.size) return true;
      offset_ -= digit.size * digit.stride;
      other_offset_ -= digit.size * digit.other_stride;
      digit.position = 0;
    }
    return false;
  }

 private:
  struct Digit {
    std::uint32_t size;
    std::uint32_t stride;
    std::uint32_t other_stride;
    std::uint32_t position;
  };

  Digit digits_[MAX_RANK] = {};
  std::uint32_t count_ = 0;
  std::uint32_t offset_ = 0;
  std::uint32_t other_offset_ = 0;
};

// The dimensions to reduce, as bits.
std::uint32_t take_reduced(const Arguments& arguments, std::uint32_t position, std::uint32_t rank) {
  const std::uint32_t all = (1u << rank) - 1;
  if (arguments.is_none(position) || arguments.list_size(position) == 0) return all;
  std::uint32_t reduced = 0;
  for (std::uint32_t i = 0; i < arguments.list_size(position); ++i) {
    reduced |= arguments.dimension_bit(arguments.list_item(position, i), rank);
  }
  return reduced;
}

}  // namespace

void mean(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSIONS, KEEP_DIMENSIONS, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  if (in.type != ScalarType::FLOAT || out.type != ScalarType::FLOAT) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if (in.elements == 0) arguments.reject(Text() << "the input is empty");
  const std::uint32_t reduced = take_reduced(arguments, DIMENSIONS, in.rank);
  const bool keep = arguments.integer(KEEP_DIMENSIONS) != 0;

  std::uint32_t in_strides[MAX_RANK];
  std::uint32_t out_strides[MAX_RANK];
  element_strides(in, in_strides);
  element_strides(out, out_strides);
  Odometer kept;
  Odometer inner;
  std::uint32_t number = 1;
  std::uint32_t out_dimension = 0;
  bool equal = true;
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    const auto size = static_cast<std::uint32_t>(in.sizes[i]);
    const bool is_reduced = (reduced >> i & 1u) != 0;
    if (is_reduced) {
      inner.add(size, in_strides[i]);
      number *= size;
    }
    if (is_reduced && !keep) continue;
    const std::int32_t expected = is_reduced ? 1 : in.sizes[i];
    if (out_dimension >= out.rank || out.sizes[out_dimension] != expected) {
      equal = false;
      break;
    }
    if (!is_reduced) kept.add(size, in_strides[i], out_strides[out_dimension]);
    ++out_dimension;
  }
  if (!equal || out_dimension != out.rank) {
    arguments.reject(Text() << "shapes of input and output do not belong together");
  }

  const auto* from = reinterpret_cast<const float*>(in.data);
  auto* to = reinterpret_cast<float*>(out.data);
  const bool from_zero = reduced == 1u << (in.rank - 1u);
  do {
    // What it starts from shows where all elements are -0.0.
    float sum = from_zero ? 0.0f + from[kept.offset()] : from[kept.offset()];
    while (inner.next()) sum += from[kept.offset() + inner.offset()];
    to[kept.other_offset()] = sum / static_cast<float>(number);
  } while (kept.next());
}

}  // namespace ethos_hil
