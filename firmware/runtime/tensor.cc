#include "runtime/tensor.h"

#include <cstring>

namespace ethos_hil {

namespace {

// The order of the dimensions that decide the layout: dimensions of size 1 may have any position.
std::uint32_t significant_order(const Tensor& tensor, std::uint8_t order[MAX_RANK]) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[tensor.dim_order[i]] != 1) order[count++] = tensor.dim_order[i];
  }
  return count;
}

}  // namespace

std::uint32_t element_size(ScalarType type) {
  switch (type) {
    case ScalarType::BYTE:
    case ScalarType::CHAR:
    case ScalarType::BOOL:
      return 1;
    case ScalarType::SHORT:
    case ScalarType::UINT16:
    case ScalarType::HALF:
    case ScalarType::BFLOAT16:
      return 2;
    case ScalarType::INT:
    case ScalarType::UINT32:
    case ScalarType::FLOAT:
      return 4;
    case ScalarType::LONG:
    case ScalarType::UINT64:
    case ScalarType::DOUBLE:
      return 8;
    default:
      return 0;
  }
}

const char* type_name(ScalarType type) {
  const char* name = executorch_flatbuffer::EnumNameScalarType(type);
  return *name == '\0' ? "unknown type" : name;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rank == b.rank && (a.rank == 0 || std::memcmp(a.sizes, b.sizes, a.rank * sizeof *a.sizes) == 0);
}

bool same_layout(const Tensor& a, const Tensor& b) {
  std::uint8_t order_a[MAX_RANK];
  std::uint8_t order_b[MAX_RANK];
  const std::uint32_t count = significant_order(a, order_a);
  return count == significant_order(b, order_b) && std::memcmp(order_a, order_b, count) == 0;
}

bool is_contiguous(const Tensor& tensor) {
  std::uint8_t order[MAX_RANK];
  const std::uint32_t count = significant_order(tensor, order);
  for (std::uint32_t i = 1; i < count; ++i) {
    if (order[i] < order[i - 1]) return false;
  }
  return true;
}

void element_strides(const Tensor& tensor, std::uint32_t strides[MAX_RANK]) {
  std::uint32_t stride = 1;
  for (std::uint32_t i = tensor.rank; i > 0; --i) {
    const std::uint8_t dimension = tensor.dim_order[i - 1];
    strides[dimension] = stride;
    stride *= static_cast<std::uint32_t>(tensor.sizes[dimension]);
  }
}

}  // namespace ethos_hil
