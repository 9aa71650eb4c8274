#include "runtime/kernels/index.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

void expect_indices(const Arguments& arguments, const Tensor& indices) {
  if (indices.type != ScalarType::INT && indices.type != ScalarType::LONG) {
    arguments.reject(Text() << "indices are " << type_name(indices.type) << ", expected INT or LONG");
  }
}

// Returns the index at an offset, in elements, of a tensor of indices.
std::uint32_t read_index(const Arguments& arguments, const Tensor& indices, std::uint32_t offset, std::uint32_t size) {
  const std::int64_t found = load_as<std::int64_t>(indices.type)(indices.data + offset * element_size(indices.type));
  if (found < -std::int64_t{size} || found >= std::int64_t{size}) {
    arguments.reject(Text() << "index " << found << " in a dimension of " << size);
  }
  return static_cast<std::uint32_t>(found < 0 ? found + size : found);
}

// Moves a view along a dimension that was removed from it.
void move_along(View& view, std::uint32_t index, std::uint32_t stride) {
  view.data += index * stride * element_size(view.type);
}

}  // namespace

void index_select(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, INDICES, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const Tensor& indices = arguments.tensor(INDICES);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  expect_indices(arguments, indices);
  if (indices.rank > 1) arguments.reject(Text() << "indices have more than one dimension");
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  if (in.rank == 0 || out.rank != in.rank || static_cast<std::uint32_t>(out.sizes[dimension]) != indices.elements) {
    arguments.reject_shapes();
  }
  for (std::uint32_t i = 0; i < indices.elements; ++i) {
    View from = view_of(in);
    View to = view_of(out);
    select(from, dimension, read_index(arguments, indices, i, from.sizes[dimension]));
    select(to, dimension, i);
    copy(arguments, from, to);
  }
}

void embedding(const Arguments& arguments) {
  enum : std::uint32_t { WEIGHT, INDICES, PADDING, SCALE, SPARSE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& weight = arguments.tensor(WEIGHT);
  const Tensor& indices = arguments.tensor(INDICES);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(weight, out);
  expect_indices(arguments, indices);
  bool fits = weight.rank == 2 && out.rank == indices.rank + 1 && is_contiguous(indices) && is_contiguous(out);
  for (std::uint32_t i = 0; fits && i < indices.rank; ++i) fits = out.sizes[i] == indices.sizes[i];
  if (!fits || out.sizes[indices.rank] != weight.sizes[1]) arguments.reject_shapes();
  const View rows = view_of(weight);
  View to = view_of(out);
  while (to.rank > 1) select(to, 0, 0);
  for (std::uint32_t i = 0; i < indices.elements; ++i) {
    View from = rows;
    const std::uint32_t index = read_index(arguments, indices, i, rows.sizes[0]);
    select(from, 0, index);
    copy(arguments, from, to);
    move_along(to, 1, to.sizes[0]);
  }
}

void gather(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, INDICES, SPARSE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const Tensor& indices = arguments.tensor(INDICES);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  expect_indices(arguments, indices);
  arguments.expect_same_shape(indices, out);
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  bool fits = in.rank == out.rank && in.rank > 0;
  for (std::uint32_t i = 0; fits && i < in.rank; ++i) fits = i == dimension || out.sizes[i] <= in.sizes[i];
  if (!fits) arguments.reject_shapes();
  if (out.elements == 0) return;
  const View from = view_of(in);
  const View picks = view_of(indices);
  const View to = view_of(out);
  Walk walk(3);
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    const std::uint32_t strides[] = {i == dimension ? 0 : from.strides[i], picks.strides[i], to.strides[i]};
    walk.add(to.sizes[i], strides);
  }
  do {
    View source = from;
    View target = to;
    source.rank = target.rank = 0;
    move_along(source, walk.offset(0), 1);
    move_along(source, read_index(arguments, indices, walk.offset(1), from.sizes[dimension]), from.strides[dimension]);
    move_along(target, walk.offset(2), 1);
    copy(arguments, source, target);
  } while (walk.next());
}

namespace {

// The indices of index(), broadcast against each other.
struct Picks {
  std::uint32_t count = 0;  // of indexed dimensions
  const Tensor* tensors[MAX_RANK];
  std::uint32_t dimensions[MAX_RANK];
  std::uint32_t strides[MAX_RANK][MAX_RANK];  // of each tensor along each dimension of `shape`
  std::uint32_t rank = 0;
  std::uint32_t shape[MAX_RANK];
  bool adjacent = true;

  // The first of the indices' dimensions in the picked tensor.
  std::uint32_t first() const { return adjacent && count > 0 ? dimensions[0] : 0; }
};

void broadcast_picks(const Arguments& arguments, Picks& picks) {
  for (std::uint32_t t = 0; t < picks.count; ++t) {
    if (picks.tensors[t]->rank > picks.rank) picks.rank = picks.tensors[t]->rank;
  }
  for (std::uint32_t d = 0; d < picks.rank; ++d) picks.shape[d] = 1;
  for (std::uint32_t t = 0; t < picks.count; ++t) {
    const View view = view_of(*picks.tensors[t]);
    const std::uint32_t missing = picks.rank - view.rank;
    for (std::uint32_t d = 0; d < picks.rank; ++d) {
      picks.strides[t][d] = 0;
      if (d < missing || view.sizes[d - missing] == 1) continue;
      picks.strides[t][d] = view.strides[d - missing];
      if (picks.shape[d] != 1 && picks.shape[d] != view.sizes[d - missing]) {
        arguments.reject(Text() << "indices cannot be broadcast to one shape");
      }
      picks.shape[d] = view.sizes[d - missing];
    }
  }
}

Picks take_picks(const Arguments& arguments, std::uint32_t position, std::uint32_t in_rank) {
  Picks picks;
  const std::uint32_t length = arguments.tensor_count(position);
  if (length > in_rank) arguments.reject(Text() << length << " indices for " << in_rank << " dimensions");
  for (std::uint32_t i = 0; i < length; ++i) {
    const Tensor* tensor = arguments.tensor_item(position, i);
    if (tensor == nullptr) continue;
    expect_indices(arguments, *tensor);
    if (picks.count > 0 && picks.dimensions[picks.count - 1] + 1 != i) picks.adjacent = false;
    picks.tensors[picks.count] = tensor;
    picks.dimensions[picks.count++] = i;
  }
  broadcast_picks(arguments, picks);
  return picks;
}

// Returns a view without the indexed dimensions, at index 0 of each.
View without_picked(const Arguments& arguments, const Picks& picks, const View& whole) {
  View rest = whole;
  for (std::uint32_t t = picks.count; t > 0; --t) {
    if (whole.sizes[picks.dimensions[t - 1]] == 0) arguments.reject(Text() << "an indexed dimension is empty");
    select(rest, picks.dimensions[t - 1], 0);
  }
  return rest;
}

// Calls `body` for each position of the picks, in order, with two views: `whole` without the indexed dimensions, at the
// position that the indices give; and `other` without the dimensions of the picks, at that position. The dimensions of
// the picks come first in `other`, unless all indexed dimensions are adjacent.
template <typename Body>
void at_each_pick(const Arguments& arguments, const Picks& picks, const View& whole, View other, Body body) {
  const View rest = without_picked(arguments, picks, whole);
  const std::uint32_t start = picks.first();
  bool fits = other.rank == rest.rank + picks.rank;
  bool empty = false;
  std::uint32_t other_strides[MAX_RANK] = {};
  std::uint32_t count = 1;
  for (std::uint32_t d = 0; fits && d < picks.rank; ++d) {
    other_strides[d] = other.strides[start + d];
    fits = other.sizes[start + d] == picks.shape[d];
    count *= picks.shape[d];
  }
  if (!fits) arguments.reject_shapes();
  for (std::uint32_t d = 0; d < other.rank; ++d) empty = empty || other.sizes[d] == 0;
  if (empty) return;
  for (std::uint32_t d = 0; d < picks.rank; ++d) select(other, start, 0);

  std::uint32_t place[MAX_RANK] = {};
  for (std::uint32_t i = 0; i < count; ++i) {
    View picked = rest;
    View there = other;
    for (std::uint32_t d = 0; d < picks.rank; ++d) move_along(there, place[d], other_strides[d]);
    for (std::uint32_t t = 0; t < picks.count; ++t) {
      std::uint32_t offset = 0;
      for (std::uint32_t d = 0; d < picks.rank; ++d) offset += place[d] * picks.strides[t][d];
      const std::uint32_t dimension = picks.dimensions[t];
      move_along(picked, read_index(arguments, *picks.tensors[t], offset, whole.sizes[dimension]),
                 whole.strides[dimension]);
    }
    body(picked, there);
    for (std::uint32_t d = picks.rank; d > 0 && ++place[d - 1] == picks.shape[d - 1]; --d) place[d - 1] = 0;
  }
}

}  // namespace

void index_tensor(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, INDICES, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  at_each_pick(arguments, take_picks(arguments, INDICES, in.rank), view_of(in), view_of(out),
               [&](const View& picked, const View& there) { copy(arguments, picked, there); });
}

void index_put(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, INDICES, VALUES, ACCUMULATE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const Tensor& values = arguments.tensor(VALUES);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  arguments.expect_same_type(values, out);
  const bool accumulate = arguments.integer(ACCUMULATE) != 0;
  const Picks picks = take_picks(arguments, INDICES, in.rank);
  const View whole = view_of(out);
  copy(arguments, view_of(in), whole);
  // The values are broadcast to the shape of index()'s output.
  View shape = without_picked(arguments, picks, whole);
  for (std::uint32_t d = picks.rank; d > 0; --d) {
    insert(arguments, shape, picks.first());
    shape.sizes[picks.first()] = picks.shape[d - 1];
  }
  View source = view_of(values);
  expand(arguments, source, shape.sizes, shape.rank);
  at_each_pick(arguments, picks, whole, source, [&](const View& picked, const View& there) {
    if (accumulate) {
      add(arguments, there, picked);
    } else {
      copy(arguments, there, picked);
    }
  });
}

}  // namespace ethos_hil
