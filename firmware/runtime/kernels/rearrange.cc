#include "runtime/kernels/rearrange.h"

#include "runtime/kernels/view.h"

namespace ethos_hil {

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

void diagonal_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, OFFSET, FIRST, SECOND, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  const View whole = view_of(in);
  if (in.rank < 2) arguments.reject(Text() << "input has less than 2 dimensions");
  const std::uint32_t first = arguments.dimension(arguments.integer(FIRST), in.rank);
  const std::uint32_t second = arguments.dimension(arguments.integer(SECOND), in.rank);
  if (first == second) arguments.reject(Text() << "the two dimensions are one");
  const std::int64_t offset = arguments.integer(OFFSET);
  const std::int64_t rows = whole.sizes[first];
  const std::int64_t columns = whole.sizes[second];
  if (offset < -INT32_MAX || offset > INT32_MAX) arguments.reject(Text() << "an offset of " << offset);
  const std::int64_t down = offset < 0 ? -offset : 0;
  const std::int64_t right = offset > 0 ? offset : 0;
  const std::int64_t left = rows - down < columns - right ? rows - down : columns - right;
  const std::int64_t length = left < 0 ? 0 : left;
  View from = whole;
  if (length > 0) {
    slice(from, first, static_cast<std::uint32_t>(down), static_cast<std::uint32_t>(length), 1);
    slice(from, second, static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(length), 1);
  }
  const std::uint32_t stride = from.strides[first] + from.strides[second];
  View diagonal{from.data, from.type, 0, {}, {}};
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    if (i == first || i == second) continue;
    diagonal.sizes[diagonal.rank] = from.sizes[i];
    diagonal.strides[diagonal.rank++] = from.strides[i];
  }
  diagonal.sizes[diagonal.rank] = static_cast<std::uint32_t>(length);
  diagonal.strides[diagonal.rank++] = stride;
  copy(arguments, diagonal, view_of(out));
}

void tril(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIAGONAL, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  arguments.expect_same_shape(in, out);
  if (in.rank < 2) arguments.reject(Text() << "input has less than 2 dimensions");
  const View from = view_of(in);
  const View to = view_of(out);
  fill_whole(arguments, 0, to);
  const std::int64_t diagonal = arguments.integer(DIAGONAL);
  const std::int64_t columns = from.sizes[from.rank - 1];
  for (std::uint32_t row = 0; row < from.sizes[from.rank - 2]; ++row) {
    // Both terms are limited, so that the sum cannot overflow.
    const std::int64_t reach = diagonal < -INT32_MAX ? -INT32_MAX : diagonal > INT32_MAX ? INT32_MAX : diagonal;
    const std::int64_t end = row + reach + 1;
    const std::int64_t kept = end < 0 ? 0 : end < columns ? end : columns;
    View source = from;
    View target = to;
    for (View* view : {&source, &target}) {
      slice(*view, view->rank - 2, row, 1, 1);
      slice(*view, view->rank - 1, 0, static_cast<std::uint32_t>(kept), 1);
    }
    copy(arguments, source, target);
  }
}

void fill_tensor(const Arguments& arguments) {
  enum : std::uint32_t { LIKE, VALUE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View to = view_of(arguments.out(OUT));
  View value = view_of(arguments.tensor(VALUE));
  if (arguments.tensor(VALUE).elements != 1) arguments.reject(Text() << "the value is not a single number");
  value.rank = 0;
  expand(arguments, value, to.sizes, to.rank);
  copy(arguments, value, to);
}

}  // namespace ethos_hil
