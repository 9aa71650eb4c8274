// A tensor's elements under another shape. Kernels that only move elements copy between two views. Every function that
// makes a view from a view stays inside it, so a copy between two views of equal sizes is safe.
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

// Keeps the elements at start, start + step, ... of a dimension; they must exist. A negative step goes backwards.
void slice(View& view, std::uint32_t dimension, std::uint32_t start, std::uint32_t length, std::int32_t step);
// Removes a dimension, at `index`.
void select(View& view, std::uint32_t dimension, std::uint32_t index);
// Inserts a dimension of size 1 before `dimension`. Ends in reject() when there are too many then.
void insert(const Arguments& arguments, View& view, std::uint32_t dimension);
// Makes dimension i the former dimension order[i]. `order` must be a permutation.
void permute(View& view, const std::uint32_t* order);
// Splits a dimension of size outer * inner into two. Ends in reject() when it has another size, or there are too many
// dimensions then.
void split(const Arguments& arguments, View& view, std::uint32_t dimension, std::uint32_t inner);
// Expands dimensions of size 1, and absent ones, to `sizes`, of which there are `rank`. Ends in reject() where other
// dimensions differ.
void expand(const Arguments& arguments, View& view, const std::uint32_t* sizes, std::uint32_t rank);

// Copies and converts every element. Ends in reject() unless sizes are equal and there is such a conversion.
void copy(const Arguments& arguments, const View& from, const View& to);

// Adds every element to the element already there, in their common type, integers modulo 2^n. Ends in reject() unless
// sizes and types are equal and numbers or bools.
void add(const Arguments& arguments, const View& from, const View& to);

// Fills `to` with a number. An argument is converted as upstream's check_overflow_scalar_cast does, except that a
// negative number never becomes an unsigned one. A number that does not fit ends in reject().
void fill(const Arguments& arguments, std::uint32_t position, const View& to);
void fill_whole(const Arguments& arguments, std::int64_t value, const View& to);

}  // namespace ethos_hil
