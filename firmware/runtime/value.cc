#include "runtime/value.h"

namespace ethos_hil {

namespace {

Tensor scalar(ScalarType type, const void* data) {
  Tensor tensor{};
  tensor.type = type;
  tensor.elements = 1;
  tensor.nbytes = element_size(type);
  // The const_cast is safe: the tensor is not writable.
  tensor.data = static_cast<std::uint8_t*>(const_cast<void*>(data));
  return tensor;
}

}  // namespace

bool as_tensor(const Value& value, Tensor& tensor) {
  switch (value.kind) {
    case ValueKind::TENSOR:
      tensor = value.tensor;
      return tensor.data != nullptr;
    case ValueKind::INT:
      tensor = scalar(ScalarType::LONG, &value.integer);
      return true;
    case ValueKind::BOOL:
      tensor = scalar(ScalarType::BOOL, &value.boolean);
      return true;
    case ValueKind::DOUBLE:
      tensor = scalar(ScalarType::DOUBLE, &value.real);
      return true;
    default:
      return false;
  }
}

}  // namespace ethos_hil
