#include "runtime/kernels/copy.h"

#include <cstring>

#include "runtime/kernels/view.h"

namespace ethos_hil {

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
  copy(arguments, view_of(arguments.tensor(INPUT)), view_of(out));
}

void to_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, NON_BLOCKING, MEMORY_FORMAT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  copy(arguments, view_of(arguments.tensor(INPUT)), view_of(arguments.out(OUT)));
}

void clone(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, MEMORY_FORMAT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  arguments.expect_same_type(arguments.tensor(INPUT), arguments.out(OUT));
  copy(arguments, view_of(arguments.tensor(INPUT)), view_of(arguments.out(OUT)));
}

void alias_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  arguments.expect_same_type(arguments.tensor(INPUT), arguments.out(OUT));
  copy(arguments, view_of(arguments.tensor(INPUT)), view_of(arguments.out(OUT)));
}

void copy_broadcast(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SOURCE, NON_BLOCKING, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View to = view_of(arguments.out(OUT));
  arguments.expect_same_type(arguments.tensor(INPUT), arguments.out(OUT));
  View from = view_of(arguments.tensor(SOURCE));
  expand(arguments, from, to.sizes, to.rank);
  copy(arguments, from, to);
}

// Copies into the first argument, which is also the last: this is how a program changes a variable.
void copy_in_place(const Arguments& arguments) {
  enum : std::uint32_t { TARGET, SOURCE, NON_BLOCKING, RETURNED, ARGUMENTS };
  arguments.expect_count(ARGUMENTS);
  const View to = view_of(arguments.out(TARGET));
  View from = view_of(arguments.tensor(SOURCE));
  expand(arguments, from, to.sizes, to.rank);
  copy(arguments, from, to);
}

namespace {

// Copies the bytes unchanged to a tensor of another shape.
void copy_bytes(const Arguments& arguments, const Tensor& in, Tensor& out) {
  arguments.expect_same_type(in, out);
  if (in.elements != out.elements) {
    arguments.reject(Text() << "input has " << in.elements << " elements, output " << out.elements);
  }
  if (!is_contiguous(in) || !is_contiguous(out)) arguments.reject(Text() << "a tensor's dim_order is not contiguous");
  std::memmove(out.data, in.data, in.nbytes);
}

// Checks that `longer` is `shorter` with a 1 inserted wherever `added` has a bit.
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
  if (!equal || kept != shorter.rank) arguments.reject_shapes();
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
  // Removes the named dimensions of size 1; other named dimensions stay.
  std::uint32_t removed = 0;
  if (arguments.kind(DIMENSIONS) == ValueKind::INT) {
    removed = arguments.dimension_bit(arguments.integer(DIMENSIONS), in.rank);
  } else {
    for (std::uint32_t i = 0; i < arguments.list_size(DIMENSIONS); ++i) {
      removed |= arguments.dimension_bit(arguments.list_item(DIMENSIONS, i), in.rank);
    }
  }
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    if (in.sizes[i] != 1) removed &= ~(1u << i);
  }
  check_added(arguments, out, in, removed);
  copy_bytes(arguments, in, out);
}

}  // namespace ethos_hil
