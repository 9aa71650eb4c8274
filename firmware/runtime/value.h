// One entry of a method's table of values.
#pragma once

#include <cstdint>

#include "runtime/tensor.h"

namespace ethos_hil {

enum class ValueKind : std::uint8_t {
  NONE,
  INT,
  BOOL,
  DOUBLE,
  TENSOR,
  INT_LIST,  // indices of other values
  OTHER,     // strings and further lists, which no kernel here takes
};

struct Value {
  ValueKind kind = ValueKind::NONE;
  union {
    std::int64_t integer = 0;
    bool boolean;
    double real;
    Tensor tensor;
    const flatbuffers::Vector<std::int64_t>* int_list;
  };
};

}  // namespace ethos_hil
