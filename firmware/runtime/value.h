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
  STRING,
  INT_LIST,  // its items are indices of values, each an INT
  BOOL_LIST,
  DOUBLE_LIST,
  TENSOR_LIST,           // its items are indices of values, each a TENSOR
  OPTIONAL_TENSOR_LIST,  // the same, or -1 for none
};

struct Value {
  ValueKind kind = ValueKind::NONE;
  union {
    std::int64_t integer = 0;
    bool boolean;
    double real;
    Tensor tensor;
    const flatbuffers::String* string;
    const flatbuffers::Vector<std::int64_t>* int_list;  // of lists, null when empty
    const flatbuffers::Vector<std::uint8_t>* bool_list;
    const flatbuffers::Vector<double>* double_list;
    const flatbuffers::Vector<std::int32_t>* tensor_list;  // of both kinds; indices are checked
  };
};

// Returns a value as a tensor: a tensor as it is; a number (LONG, DOUBLE) or BOOL without dimensions, whose bytes are
// the value's own. False for anything else, and for a tensor without memory.
bool as_tensor(const Value& value, Tensor& tensor);

}  // namespace ethos_hil
