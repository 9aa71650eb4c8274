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

void transpose_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, FIRST, SECOND, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  View from = view_of(in);
  const std::uint32_t first = arguments.dimension(arguments.integer(FIRST), from.rank);
  const std::uint32_t second = arguments.dimension(arguments.integer(SECOND), from.rank);
  std::uint32_t order[MAX_RANK];
  for (std::uint32_t i = 0; i < from.rank; ++i) order[i] = i == first ? second : i == second ? first : i;
  permute(from, order);
  copy(arguments, from, output_like(arguments, in, OUT));
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

namespace {

// A view of all elements in order.
View flat(const Arguments& arguments, const Tensor& tensor) {
  if (!is_contiguous(tensor)) arguments.reject(Text() << "without dimensions, tensors must be contiguous");
  return View{tensor.data, tensor.type, 1, {tensor.elements}, {1}};
}

// Copies the elements from `dimension` on, each dimension in the two parts that its shift cuts it into.
void roll_from(const Arguments& arguments, const View& from, const View& to, const std::uint32_t* shifts,
               std::uint32_t dimension) {
  while (dimension < from.rank && shifts[dimension] == 0) ++dimension;
  if (dimension == from.rank) return copy(arguments, from, to);
  const std::uint32_t size = from.sizes[dimension];
  const std::uint32_t shift = shifts[dimension];
  for (const bool wrapped : {false, true}) {
    View source = from;
    View target = to;
    const std::uint32_t length = wrapped ? shift : size - shift;
    slice(source, dimension, wrapped ? size - shift : 0, length, 1);
    slice(target, dimension, wrapped ? 0 : shift, length, 1);
    roll_from(arguments, source, target, shifts, dimension + 1);
  }
}

}  // namespace

void roll(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SHIFTS, DIMENSIONS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  arguments.expect_same_shape(in, out);
  if (in.elements == 0) return;
  const std::uint32_t count = arguments.list_size(DIMENSIONS);
  const bool all = count == 0;
  const View from = all ? flat(arguments, in) : view_of(in);
  const View to = all ? flat(arguments, out) : view_of(out);
  if (arguments.list_size(SHIFTS) != (all ? 1 : count)) arguments.reject(Text() << "not one shift for each dimension");
  std::uint32_t shifts[MAX_RANK] = {};
  for (std::uint32_t i = 0; i < arguments.list_size(SHIFTS); ++i) {
    const std::uint32_t dimension = all ? 0 : arguments.dimension(arguments.list_item(DIMENSIONS, i), in.rank);
    const std::int64_t size = from.rank == 0 ? 1 : from.sizes[dimension];
    const std::int64_t shift = arguments.list_item(SHIFTS, i) % size;
    shifts[dimension] = static_cast<std::uint32_t>((shifts[dimension] + shift + size) % size);
  }
  roll_from(arguments, from, to, shifts, 0);
}

}  // namespace ethos_hil
