#include "runtime/kernels/arrange.h"

#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

// The output of a kernel that keeps the type.
View output_like(const Arguments& arguments, const Tensor& in, std::uint32_t position) {
  Tensor& out = arguments.out(position);
  arguments.expect_same_type(in, out);
  return view_of(out);
}

// A dimension argument; 0 for a number, which has no dimensions.
std::uint32_t dimension_of(const Arguments& arguments, std::uint32_t position, const View& view) {
  if (view.rank == 0) arguments.reject(Text() << "a number has no dimensions");
  return arguments.dimension(arguments.integer(position), view.rank);
}

// An index, counted from the end if negative.
std::uint32_t index_of(const Arguments& arguments, std::uint32_t position, std::uint32_t size) {
  const std::int64_t index = arguments.integer(position);
  if (index < -std::int64_t{size} || index >= std::int64_t{size}) {
    arguments.reject(Text() << "index " << index << " in a dimension of " << size);
  }
  return static_cast<std::uint32_t>(index < 0 ? index + size : index);
}

// Slices a dimension as Python does: limits beyond the ends become the ends.
void cut(const Arguments& arguments, View& view, std::uint32_t dimension, std::uint32_t start_at) {
  const std::int64_t size = view.sizes[dimension];
  const auto limit = [&](std::uint32_t position, std::int64_t otherwise) {
    if (arguments.is_none(position)) return otherwise;
    const std::int64_t value = arguments.integer(position);
    if (value < -size) return std::int64_t{0};
    if (value < 0) return value + size;
    return value > size ? size : value;
  };
  const std::int64_t start = limit(start_at, 0);
  const std::int64_t end = limit(start_at + 1, size);
  const std::int64_t step = arguments.integer(start_at + 2);
  if (step < 1) arguments.reject(Text() << "a step of " << step);
  // A step past the whole dimension has the same effect as one past its end.
  const auto pace = static_cast<std::int32_t>(step > size ? size + 1 : step);
  const std::int64_t length = end > start ? (end - start + pace - 1) / pace : 0;
  slice(view, dimension, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length), pace);
}

}  // namespace

void permute_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSIONS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  std::uint32_t order[MAX_RANK];
  std::uint32_t seen = 0;
  if (arguments.list_size(DIMENSIONS) != from.rank)
    arguments.reject(Text() << "not as many dimensions as the input has");
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    order[i] = arguments.dimension(arguments.list_item(DIMENSIONS, i), from.rank);
    seen |= 1u << order[i];
  }
  if (seen != (1u << from.rank) - 1) arguments.reject(Text() << "the dimensions are not a permutation");
  permute(from, order);
  copy(arguments, from, output_like(arguments, in, OUT));
}

namespace {

void transpose(const Arguments& arguments, std::uint32_t a, std::uint32_t b, std::uint32_t out_at) {
  const Tensor& in = arguments.tensor(0);
  View from = view_of(in);
  std::uint32_t order[MAX_RANK];
  for (std::uint32_t i = 0; i < from.rank; ++i) order[i] = i == a ? b : i == b ? a : i;
  permute(from, order);
  copy(arguments, from, output_like(arguments, in, out_at));
}

}  // namespace

void transpose_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, FIRST, SECOND, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const std::uint32_t rank = arguments.tensor(INPUT).rank;
  transpose(arguments, arguments.dimension(arguments.integer(FIRST), rank),
            arguments.dimension(arguments.integer(SECOND), rank), OUT);
}

void t_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const std::uint32_t rank = arguments.tensor(INPUT).rank;
  if (rank > 2) arguments.reject(Text() << "input has " << rank << " dimensions, expected at most 2");
  transpose(arguments, 0, rank == 2 ? 1 : 0, OUT);
}

void expand_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZES, IMPLICIT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const View to = output_like(arguments, in, OUT);
  View from = view_of(in);
  expand(arguments, from, to.sizes, to.rank);
  copy(arguments, from, to);
}

void slice_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, START, END, STEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  cut(arguments, from, dimension_of(arguments, DIMENSION, from), START);
  copy(arguments, from, output_like(arguments, in, OUT));
}

void narrow_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, START, LENGTH, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  const std::uint32_t dimension = dimension_of(arguments, DIMENSION, from);
  const std::int64_t size = from.sizes[dimension];
  std::int64_t start = arguments.integer(START);
  const std::int64_t length = arguments.integer(LENGTH);
  if (start < 0 && start >= -size) start += size;
  if (start < 0 || start > size || length < 0 || length > size - start) {
    arguments.reject(Text() << length << " elements from " << start << " in a dimension of " << size);
  }
  slice(from, dimension, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length), 1);
  copy(arguments, from, output_like(arguments, in, OUT));
}

void select_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, INDEX, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  const std::uint32_t dimension = dimension_of(arguments, DIMENSION, from);
  select(from, dimension, index_of(arguments, INDEX, from.sizes[dimension]));
  copy(arguments, from, output_like(arguments, in, OUT));
}

void flip(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSIONS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  std::uint32_t flipped = 0;
  for (std::uint32_t i = 0; i < arguments.list_size(DIMENSIONS); ++i) {
    flipped |= arguments.dimension_bit(arguments.list_item(DIMENSIONS, i), from.rank);
  }
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    if ((flipped >> i & 1u) == 0 || in.elements == 0) continue;
    slice(from, i, from.sizes[i] - 1, from.sizes[i], -1);
  }
  copy(arguments, from, output_like(arguments, in, OUT));
}

void repeat(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, REPEATS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  View to = output_like(arguments, in, OUT);
  if (arguments.list_size(REPEATS) != to.rank || from.rank > to.rank) arguments.reject_shapes();
  while (from.rank < to.rank) insert(arguments, from, 0);
  // Every dimension of the output, as (repetition, position in the input).
  for (std::uint32_t i = to.rank; i > 0; --i) {
    const std::uint32_t dimension = i - 1;
    if (from.sizes[dimension] != 0 || to.sizes[dimension] != 0) {
      split(arguments, to, dimension, from.sizes[dimension]);
    } else {
      insert(arguments, to, dimension);
    }
    if (to.sizes[dimension] != arguments.list_item(REPEATS, dimension) && in.elements != 0) arguments.reject_shapes();
    insert(arguments, from, dimension);
  }
  expand(arguments, from, to.sizes, to.rank);
  copy(arguments, from, to);
}

void unfold_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, SIZE, STEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  const std::uint32_t dimension = dimension_of(arguments, DIMENSION, from);
  const std::int64_t size = arguments.integer(SIZE);
  const std::int64_t step = arguments.integer(STEP);
  if (size < 0 || step < 1 || size > from.sizes[dimension]) {
    arguments.reject(Text() << "windows of " << size << " every " << step << " in a dimension of "
                            << from.sizes[dimension]);
  }
  const std::int64_t room = from.sizes[dimension] - size;
  insert(arguments, from, from.rank);
  from.sizes[from.rank - 1] = static_cast<std::uint32_t>(size);
  from.strides[from.rank - 1] = from.strides[dimension];
  from.sizes[dimension] = static_cast<std::uint32_t>(room / step + 1);
  from.strides[dimension] *= static_cast<std::uint32_t>(step);
  copy(arguments, from, output_like(arguments, in, OUT));
}

void as_strided_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZES, STRIDES, OFFSET, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  from.rank = arguments.list_size(SIZES);
  if (from.rank > MAX_RANK || arguments.list_size(STRIDES) != from.rank) {
    arguments.reject(Text() << from.rank << " sizes and " << arguments.list_size(STRIDES) << " strides");
  }
  const std::int64_t offset = arguments.is_none(OFFSET) ? 0 : arguments.integer(OFFSET);
  // The offset of the furthest element. Every term is checked against the tensor, so that sums cannot overflow.
  std::int64_t last = offset;
  bool empty = false;
  bool inside = offset >= 0 && offset < std::int64_t{in.elements};
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    const std::int64_t size = arguments.list_item(SIZES, i);
    const std::int64_t stride = arguments.list_item(STRIDES, i);
    if (size < 0 || size > INT32_MAX || stride < 0 || stride > INT32_MAX) {
      arguments.reject(Text() << "size " << size << " at a stride of " << stride);
    }
    empty = empty || size == 0;
    if (size > 1) last += (size - 1) * stride;
    inside = inside && last < std::int64_t{in.elements};
    if (!inside && !empty) last = in.elements;
    from.sizes[i] = static_cast<std::uint32_t>(size);
    from.strides[i] = static_cast<std::uint32_t>(stride);
  }
  if (!inside && !empty) arguments.reject(Text() << "elements beyond the input's " << in.elements);
  if (!empty) from.data += offset * element_size(in.type);
  copy(arguments, from, output_like(arguments, in, OUT));
}

namespace {

// Makes views of `many` channels and of larger planes with equal sizes: [..., channels, factor, factor, height, width].
void match_pixels(const Arguments& arguments, View& many, View& large, std::uint32_t factor_at) {
  const std::int64_t factor = arguments.integer(factor_at);
  if (factor < 1 || factor > INT32_MAX || many.rank < 3 || large.rank != many.rank) {
    arguments.reject(Text() << "a factor of " << factor << " for " << many.rank << " dimensions");
  }
  const auto f = static_cast<std::uint32_t>(factor);
  const std::uint32_t channel = many.rank - 3;
  split(arguments, many, channel, f);
  split(arguments, many, channel, f);
  split(arguments, large, channel + 2, f);
  split(arguments, large, channel + 1, f);
  // The larger planes are now [..., channels, height, factor, width, factor].
  std::uint32_t order[MAX_RANK];
  for (std::uint32_t i = 0; i <= channel; ++i) order[i] = i;
  constexpr std::uint32_t INNER[] = {2, 4, 1, 3};
  for (std::uint32_t i = 0; i < 4; ++i) order[channel + 1 + i] = channel + INNER[i];
  permute(large, order);
}

}  // namespace

void pixel_shuffle(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, FACTOR, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  View from = view_of(arguments.tensor(INPUT));
  View to = output_like(arguments, arguments.tensor(INPUT), OUT);
  match_pixels(arguments, from, to, FACTOR);
  copy(arguments, from, to);
}

void pixel_unshuffle(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, FACTOR, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  View from = view_of(arguments.tensor(INPUT));
  View to = output_like(arguments, arguments.tensor(INPUT), OUT);
  match_pixels(arguments, to, from, FACTOR);
  copy(arguments, from, to);
}

void constant_pad(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, WIDTHS, VALUE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const View from = view_of(in);
  View to = output_like(arguments, in, OUT);
  const std::uint32_t count = arguments.list_size(WIDTHS);
  if (count % 2 != 0 || count / 2 > from.rank || to.rank != from.rank) arguments.reject_shapes();
  fill(arguments, VALUE, to);
  // The widths are pairs, from the last dimension on.
  for (std::uint32_t pair = 0; pair < count / 2; ++pair) {
    const std::uint32_t dimension = from.rank - 1 - pair;
    const std::int64_t before = arguments.list_item(WIDTHS, 2 * pair);
    const std::int64_t after = arguments.list_item(WIDTHS, 2 * pair + 1);
    const std::int64_t added = std::int64_t{to.sizes[dimension]} - from.sizes[dimension];
    if (before < 0 || after < 0 || before > added || after != added - before) arguments.reject_shapes();
    slice(to, dimension, static_cast<std::uint32_t>(before), from.sizes[dimension], 1);
  }
  copy(arguments, from, to);
}

void select_scatter(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SOURCE, DIMENSION, INDEX, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  View to = output_like(arguments, arguments.tensor(INPUT), OUT);
  copy(arguments, view_of(arguments.tensor(INPUT)), to);
  const std::uint32_t dimension = dimension_of(arguments, DIMENSION, to);
  select(to, dimension, index_of(arguments, INDEX, to.sizes[dimension]));
  copy(arguments, view_of(arguments.tensor(SOURCE)), to);
}

void slice_scatter(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SOURCE, DIMENSION, START, END, STEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  View to = output_like(arguments, arguments.tensor(INPUT), OUT);
  copy(arguments, view_of(arguments.tensor(INPUT)), to);
  cut(arguments, to, dimension_of(arguments, DIMENSION, to), START);
  copy(arguments, view_of(arguments.tensor(SOURCE)), to);
}

}  // namespace ethos_hil
