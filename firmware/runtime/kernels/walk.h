// Counts through the positions of a shape, the dimension added last fastest, and keeps each position's offset in up to
// four tensors at once. Distances are in elements and may be 0 (a tensor that repeats along a dimension) or negative
// (one that is read backwards): offsets wrap as unsigned numbers do.
#pragma once

#include <cstdint>

#include "runtime/tensor.h"

namespace ethos_hil {

class Walk {
 public:
  static constexpr std::uint32_t TENSORS = 4;

  explicit Walk(std::uint32_t tensors) : tensors_(tensors) {}

  // Adds a dimension inside the ones before: its size, and the distance between neighbours in each tensor. It is merged
  // with the dimension before if it continues that in every tensor.
  void add(std::uint32_t size, const std::uint32_t* strides);

  std::uint32_t offset(std::uint32_t tensor) const { return offsets_[tensor]; }

  // Goes to the next position. After the last one it returns false and is at the start again.
  bool next();

 private:
  struct Digit {
    std::uint32_t size;
    std::uint32_t position;
    std::uint32_t strides[TENSORS];
  };

  std::uint32_t tensors_;
  std::uint32_t rank_ = 0;
  std::uint32_t offsets_[TENSORS] = {};
  Digit digits_[MAX_RANK] = {};
};

}  // namespace ethos_hil
