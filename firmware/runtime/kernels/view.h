// A tensor's elements under another shape: what a kernel that only moves elements copies from and to. Every function
// that makes a view from a view stays inside of it, so a copy between two views of equal sizes is safe.
#pragma once

#include "runtime/kernels/arguments.h"

namespace ethos_hil {

struct View {
  std::uint8_t* data;
  ScalarType type;
  std::uint32_t rank;
  std::uint32_t sizes[MAX_RANK];
  std::uint32_t strides[MAX_RANK];  // in elements, modulo 2^32
};

View view_of(const Tensor& tensor);

// The elements at start, start + step, ... of a dimension; they must be there. With a negative step backwards.
void slice(View& view, std::uint32_t dimension, std::uint32_t start, std::uint32_t length, std::int32_t step);
// What is left when a dimension is held at `index`.
void select(View& view, std::uint32_t dimension, std::uint32_t index);
// A dimension of size 1, before `dimension`. Ends in reject() when there are too many then.
void insert(const Arguments& arguments, View& view, std::uint32_t dimension);
// Dimension i becomes what dimension order[i] was. A permutation.
void permute(View& view, const std::uint32_t* order);
// A dimension of size outer * inner becomes two. Ends in reject() when it has another size, or there are too many then.
void split(const Arguments& arguments, View& view, std::uint32_t dimension, std::uint32_t inner);
// Dimensions of size 1 and absent ones become as large as in `sizes`, of which there are `rank`. Ends in reject() where
// others differ.
void expand(const Arguments& arguments, View& view, const std::uint32_t* sizes, std::uint32_t rank);

// Copies and converts every element; ends in reject() unless sizes are equal and there is such a conversion.
void copy(const Arguments& arguments, const View& from, const View& to);

// Adds every element to the one that is there, in the type that both have, integers modulo 2^n. Ends in reject() unless
// sizes and types are equal and numbers or bools.
void add(const Arguments& arguments, const View& from, const View& to);

// A number as every element of `to`. An argument is converted as upstream's check_overflow_scalar_cast does, except
// that no negative number becomes an unsigned one; what does not fit ends in reject().
void fill(const Arguments& arguments, std::uint32_t position, const View& to);
void fill_whole(const Arguments& arguments, std::int64_t value, const View& to);

}  // namespace ethos_hil
