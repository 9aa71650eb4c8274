#include "runtime/kernels/walk.h"

namespace ethos_hil {

void Walk::add(std::uint32_t size, const std::uint32_t* strides) {
  if (size == 1) return;
  if (rank_ > 0) {
    Digit& before = digits_[rank_ - 1];
    bool continues = true;
    for (std::uint32_t t = 0; t < tensors_; ++t) continues = continues && before.strides[t] == size * strides[t];
    if (continues) {
      before.size *= size;
      for (std::uint32_t t = 0; t < tensors_; ++t) before.strides[t] = strides[t];
      return;
    }
  }
  Digit& digit = digits_[rank_++];
  digit.size = size;
  for (std::uint32_t t = 0; t < tensors_; ++t) digit.strides[t] = strides[t];
}

bool Walk::next() {
  for (std::uint32_t i = rank_; i > 0; --i) {
    Digit& digit = digits_[i - 1];
    for (std::uint32_t t = 0; t < tensors_; ++t) offsets_[t] += digit.strides[t];
    if (++digit.position < digit.size) return true;
    for (std::uint32_t t = 0; t < tensors_; ++t) offsets_[t] -= digit.size * digit.strides[t];
    digit.position = 0;
  }
  return false;
}

}  // namespace ethos_hil
