#include "runtime/kernels/cortex_m_matmul.h"

#include "runtime/kernels/cortex_m.h"
#include "runtime/kernels/cortex_m_dot.h"

namespace ethos_hil {

namespace {

struct Product {
  std::int32_t left_offset;
  std::int32_t right_offset;
  std::int32_t output_offset;
  Scale scale;
  Range range;

  // Multiplies `rows` of the left matrix with `columns` rows of the right one, all of `inner` elements.
  void run(const std::int8_t* left, std::uint32_t rows, const std::int8_t* right, std::uint32_t columns,
           std::uint32_t inner, const std::int32_t* start, std::int8_t* to) const {
    for (std::uint32_t row = 0; row < rows; ++row, left += inner) {
      const std::int8_t* other = right;
      for (std::uint32_t column = 0; column < columns; ++column, other += inner) {
        const auto first = static_cast<std::uint32_t>(start == nullptr ? 0 : start[column]);
        const std::uint32_t sum = first + dot(Row{left, left_offset}, Row{other, right_offset}, inner);
        *to++ = range.clamp(wrapping_sum(requantize(static_cast<std::int32_t>(sum), scale), output_offset));
      }
    }
  }
};

// The only item of a list of scales.
std::int32_t take_first(const Arguments& arguments, std::uint32_t position, std::int64_t low, std::int64_t high) {
  const std::uint32_t size = arguments.list_size(position);
  const std::int64_t found = size == 0 ? 0 : arguments.list_item(position, 0);
  if (size != 1 || found < low || found > high) {
    arguments.reject(Text() << "argument " << position << " has " << size << " items, the first " << found
                            << ", expected one from " << low << " to " << high);
  }
  return static_cast<std::int32_t>(found);
}

std::uint32_t size_of(const Tensor& tensor, std::uint32_t dimension) {
  return static_cast<std::uint32_t>(tensor.sizes[dimension]);
}

}  // namespace

void quantized_linear(const Arguments& arguments) {
  enum : std::uint32_t {
    INPUT,
    WEIGHTS,
    BIAS,
    KERNEL_SUM,
    INPUT_OFFSET,
    FILTER_OFFSET,
    OUTPUT_OFFSET,
    MULTIPLIERS,
    SHIFTS,
    HIGH,
    LOW,
    OUT,
    COUNT = OUT + 2
  };
  arguments.expect_count(COUNT);
  const Tensor& in = take_plain(arguments, INPUT);
  const Tensor& weights = take_plain(arguments, WEIGHTS);
  Tensor& out = take_plain_out(arguments, OUT);
  if (in.rank == 0 || out.rank != in.rank || weights.rank != 2) arguments.reject_shapes();
  const std::uint32_t inner = size_of(in, in.rank - 1u);
  const std::uint32_t columns = size_of(weights, 0);
  if (size_of(weights, 1) != inner || size_of(out, out.rank - 1u) != columns) arguments.reject_shapes();
  for (std::uint32_t i = 0; i + 1 < in.rank; ++i) {
    if (in.sizes[i] != out.sizes[i]) arguments.reject_shapes();
  }
  const std::int32_t* sums = take_int32(arguments, KERNEL_SUM, columns);
  const std::int32_t offset = take_offset(arguments, INPUT_OFFSET);
  const Product product{
      sums == nullptr ? offset : 0, take_offset(arguments, FILTER_OFFSET), take_zero_point(arguments, OUTPUT_OFFSET),
      Scale{take_first(arguments, MULTIPLIERS, -INT32_MAX, INT32_MAX), take_first(arguments, SHIFTS, -31, 30)},
      take_range(arguments, LOW, HIGH)};
  product.run(int8_of(in), columns == 0 ? 0 : out.elements / columns, int8_of(weights), columns, inner,
              sums == nullptr ? take_int32(arguments, BIAS, columns) : sums, int8_of(out));
}

void quantized_batch_matmul(const Arguments& arguments) {
  enum : std::uint32_t {
    LEFT,
    LEFT_OFFSET,
    RIGHT,
    RIGHT_OFFSET,
    OUTPUT_OFFSET,
    MULTIPLIER,
    SHIFT,
    SCRATCH,
    OUT,
    COUNT = OUT + 2
  };
  arguments.expect_count(COUNT);
  const Tensor& left = take_plain(arguments, LEFT);
  const Tensor& right = take_plain(arguments, RIGHT);
  Tensor& out = take_plain_out(arguments, OUT);
  if (left.rank != 3 || right.rank != 3 || out.rank != 3 || left.sizes[0] != right.sizes[0] ||
      left.sizes[2] != right.sizes[2] || out.sizes[0] != left.sizes[0] || out.sizes[1] != left.sizes[1] ||
      out.sizes[2] != right.sizes[1]) {
    arguments.reject_shapes();
  }
  const Product product{take_offset(arguments, LEFT_OFFSET), take_offset(arguments, RIGHT_OFFSET),
                        take_zero_point(arguments, OUTPUT_OFFSET), take_scale(arguments, MULTIPLIER, SHIFT), INT8};
  const std::uint32_t rows = size_of(left, 1);
  const std::uint32_t columns = size_of(right, 1);
  const std::uint32_t inner = size_of(left, 2);
  for (std::uint32_t batch = 0; batch < size_of(left, 0); ++batch) {
    product.run(int8_of(left) + batch * rows * inner, rows, int8_of(right) + batch * columns * inner, columns, inner,
                nullptr, int8_of(out) + batch * rows * columns);
  }
}

}  // namespace ethos_hil
