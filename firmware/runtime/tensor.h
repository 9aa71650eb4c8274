// A tensor: type, shape and layout as the program states them, and where its bytes are.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "runtime/schema.h"

namespace ethos_hil {

using ScalarType = executorch_flatbuffer::ScalarType;

// Bytes of one element; 0 for a type this firmware does not know.
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

// Whether equal positions in memory are equal positions in the tensor: dimensions longer than 1 are in equal order.
// For tensors of the same shape.
bool same_layout(const Tensor& a, const Tensor& b);

// Whether the last dimension is innermost, and so on: dimensions longer than 1 are in ascending order.
bool is_contiguous(const Tensor& tensor);

// Distance in elements between neighbours along each dimension.
void element_strides(const Tensor& tensor, std::uint32_t strides[MAX_RANK]);

}  // namespace ethos_hil
