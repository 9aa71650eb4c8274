// A tensor: type, shape and layout from the program, and the place of its bytes.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "runtime/schema.h"

namespace ethos_hil {

using ScalarType = executorch_flatbuffer::ScalarType;

// Bytes of one element; 0 for an unknown type.
std::uint32_t element_size(ScalarType type);

// "FLOAT"; for messages.
const char* type_name(ScalarType type);

struct Tensor {
  ScalarType type;
  std::uint8_t rank;
  bool writable;                  // false for constants, which live in the program itself
  const std::int32_t* sizes;      // rank of them
  const std::uint8_t* dim_order;  // rank of them, a permutation: dimensions from outermost to innermost
  std::uint32_t elements;
  std::uint32_t nbytes;
  std::uint8_t* data;  // null for a tensor that has no memory yet
};

bool same_shape(const Tensor& a, const Tensor& b);

// Whether equal positions in memory are equal positions in both tensors: dimensions longer than 1 have the same order.
// The tensors must have the same shape.
bool same_layout(const Tensor& a, const Tensor& b);

// Whether dimensions longer than 1 are in ascending order, with the last one innermost.
bool is_contiguous(const Tensor& tensor);

// The distance in elements between neighbours along each dimension.
void element_strides(const Tensor& tensor, std::uint32_t strides[MAX_RANK]);

}  // namespace ethos_hil
