// The arguments of one kernel call, by position and checked. An argument that the kernel cannot take ends in ERROR
// KERNEL, which names the instruction, the operator and the argument.
#pragma once

#include <cstdint>

#include "link/text.h"
#include "runtime/value.h"

namespace ethos_hil {

class Arguments {
 public:
  Arguments(Value* values, const flatbuffers::Vector<std::int32_t>* indices, std::uint32_t instruction,
            const char* name)
      : values_(values), indices_(indices), instruction_(instruction), name_(name) {}

  std::uint32_t count() const;
  void expect_count(std::uint32_t expected) const;

  ValueKind kind(std::uint32_t position) const { return value(position).kind; }
  bool is_none(std::uint32_t position) const { return kind(position) == ValueKind::NONE; }
  // INT, or BOOL as 0 or 1.
  std::int64_t integer(std::uint32_t position) const;
  // DOUBLE, or INT, or BOOL as 0 or 1.
  double real(std::uint32_t position) const;
  // A tensor that has memory.
  const Tensor& tensor(std::uint32_t position) const;
  // A tensor that has memory and may be written.
  Tensor& out(std::uint32_t position) const;
  // Whether a string is `text`.
  bool is_text(std::uint32_t position, const char* text) const;
  // A list of ints.
  std::uint32_t list_size(std::uint32_t position) const;
  std::int64_t list_item(std::uint32_t position, std::uint32_t item) const;
  // A list of floats.
  std::uint32_t real_count(std::uint32_t position) const;
  double real_item(std::uint32_t position, std::uint32_t item) const;
  // A list of tensors; an item is null where the list has none.
  std::uint32_t tensor_count(std::uint32_t position) const;
  const Tensor* tensor_item(std::uint32_t position, std::uint32_t item) const;
  Tensor& out_item(std::uint32_t position, std::uint32_t item) const;

  // A dimension of a tensor of `rank`, counted from the end if negative. A number has one dimension, 0 or -1, as
  // upstream.
  std::uint32_t dimension(std::int64_t dimension, std::uint32_t rank) const;
  // The same dimension as a bit; a number has none.
  std::uint32_t dimension_bit(std::int64_t dimension, std::uint32_t rank) const;

  // These end in reject() unless the two are alike.
  void expect_same_type(const Tensor& in, const Tensor& out) const;
  void expect_same_shape(const Tensor& in, const Tensor& out) const;
  void expect_type(const Tensor& tensor, ScalarType type, const char* which) const;

  // The start of a message: instruction and operator.
  Text where() const;

  // Ends in ERROR KERNEL with where() and `problem`.
  [[noreturn]] void reject(const Text& problem) const;
  [[noreturn]] void reject_types(const Tensor& in, const Tensor& out) const;
  [[noreturn]] void reject_shapes() const;

 private:
  Value& value(std::uint32_t position) const;
  Value& item_value(std::uint32_t position, std::uint32_t item) const;
  [[noreturn]] void wrong_kind(std::uint32_t position, const char* expected) const;

  Value* values_;
  const flatbuffers::Vector<std::int32_t>* indices_;
  std::uint32_t instruction_;
  const char* name_;
};

}  // namespace ethos_hil
