#include "runtime/kernels/arguments.h"

#include <cstring>

#include "link/report.h"
#include "runtime/program.h"

namespace ethos_hil {

namespace {

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::NONE:
      return "none";
    case ValueKind::INT:
      return "an int";
    case ValueKind::BOOL:
      return "a bool";
    case ValueKind::DOUBLE:
      return "a float";
    case ValueKind::TENSOR:
      return "a tensor";
    case ValueKind::STRING:
      return "a string";
    case ValueKind::INT_LIST:
      return "a list of ints";
    case ValueKind::BOOL_LIST:
      return "a list of bools";
    case ValueKind::DOUBLE_LIST:
      return "a list of floats";
    default:
      return "a list of tensors";
  }
}

}  // namespace

Text Arguments::where() const {
  Text text;
  text << "instruction " << instruction_ << ", " << name_ << ": ";
  return text;
}

void Arguments::reject(const Text& problem) const {
  fail(ErrorKind::KERNEL, where() << Characters{problem.data(), problem.size()});
}

void Arguments::wrong_kind(std::uint32_t position, const char* expected) const {
  reject(Text() << "argument " << position << " is " << kind_name(value(position).kind) << ", expected " << expected);
}

std::uint32_t Arguments::count() const { return ethos_hil::count(indices_); }

void Arguments::expect_count(std::uint32_t expected) const {
  if (count() != expected) {
    reject(Text() << "called with " << count() << " arguments, expected " << expected);
  }
}

Value& Arguments::value(std::uint32_t position) const {
  if (position >= count()) reject(Text() << "argument " << position << " is missing");
  return values_[indices_->Get(position)];
}

std::int64_t Arguments::integer(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind == ValueKind::BOOL) return found.boolean ? 1 : 0;
  if (found.kind != ValueKind::INT) wrong_kind(position, "an int");
  return found.integer;
}

double Arguments::real(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind == ValueKind::INT) return static_cast<double>(found.integer);
  if (found.kind == ValueKind::BOOL) return found.boolean ? 1 : 0;
  if (found.kind != ValueKind::DOUBLE) wrong_kind(position, "a float");
  return found.real;
}

const Tensor& Arguments::tensor(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind != ValueKind::TENSOR) wrong_kind(position, "a tensor");
  if (found.tensor.data == nullptr) reject(Text() << "argument " << position << " is a tensor without memory");
  return found.tensor;
}

Tensor& Arguments::out(std::uint32_t position) const {
  tensor(position);
  Tensor& found = value(position).tensor;
  if (!found.writable) reject(Text() << "argument " << position << " is a constant tensor and cannot be written");
  return found;
}

std::uint32_t Arguments::list_size(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind != ValueKind::INT_LIST) wrong_kind(position, "a list of ints");
  return ethos_hil::count(found.int_list);
}

std::int64_t Arguments::list_item(std::uint32_t position, std::uint32_t item) const {
  if (item >= list_size(position)) reject(Text() << "argument " << position << " has no item " << item);
  const Value& found = values_[value(position).int_list->Get(item)];
  if (found.kind != ValueKind::INT)
    reject(Text() << "item " << item << " of argument " << position << " is not an int");
  return found.integer;
}

bool Arguments::is_text(std::uint32_t position, const char* text) const {
  const Value& found = value(position);
  if (found.kind != ValueKind::STRING || found.string == nullptr) wrong_kind(position, "a string");
  return std::strcmp(found.string->c_str(), text) == 0;
}

std::uint32_t Arguments::real_count(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind != ValueKind::DOUBLE_LIST) wrong_kind(position, "a list of floats");
  return ethos_hil::count(found.double_list);
}

double Arguments::real_item(std::uint32_t position, std::uint32_t item) const {
  if (item >= real_count(position)) reject(Text() << "argument " << position << " has no item " << item);
  return value(position).double_list->Get(item);
}

std::uint32_t Arguments::tensor_count(std::uint32_t position) const {
  const Value& found = value(position);
  if (found.kind != ValueKind::TENSOR_LIST && found.kind != ValueKind::OPTIONAL_TENSOR_LIST) {
    wrong_kind(position, "a list of tensors");
  }
  return ethos_hil::count(found.tensor_list);
}

Value& Arguments::item_value(std::uint32_t position, std::uint32_t item) const {
  if (item >= tensor_count(position)) reject(Text() << "argument " << position << " has no item " << item);
  const std::int32_t index = value(position).tensor_list->Get(item);
  if (index < 0) reject(Text() << "item " << item << " of argument " << position << " is missing");
  Value& found = values_[index];
  if (found.kind != ValueKind::TENSOR || found.tensor.data == nullptr) {
    reject(Text() << "item " << item << " of argument " << position << " is not a tensor with memory");
  }
  return found;
}

const Tensor* Arguments::tensor_item(std::uint32_t position, std::uint32_t item) const {
  if (item >= tensor_count(position)) reject(Text() << "argument " << position << " has no item " << item);
  const std::int32_t index = value(position).tensor_list->Get(item);
  if (index < 0 || values_[index].kind == ValueKind::NONE) return nullptr;
  return &item_value(position, item).tensor;
}

Tensor& Arguments::out_item(std::uint32_t position, std::uint32_t item) const {
  Tensor& found = item_value(position, item).tensor;
  if (!found.writable) {
    reject(Text() << "item " << item << " of argument " << position << " is a constant tensor and cannot be written");
  }
  return found;
}

std::uint32_t Arguments::dimension(std::int64_t dimension, std::uint32_t rank) const {
  const auto limit = static_cast<std::int64_t>(rank == 0 ? 1 : rank);
  if (dimension < -limit || dimension >= limit) {
    reject(Text() << "dimension " << dimension << " of a tensor with " << rank << " dimensions");
  }
  return static_cast<std::uint32_t>(dimension < 0 ? dimension + limit : dimension);
}

std::uint32_t Arguments::dimension_bit(std::int64_t dimension, std::uint32_t rank) const {
  const std::uint32_t bit = 1u << this->dimension(dimension, rank);
  return rank == 0 ? 0 : bit;
}

void Arguments::expect_same_type(const Tensor& in, const Tensor& out) const {
  if (in.type != out.type) reject_types(in, out);
}

void Arguments::expect_same_shape(const Tensor& in, const Tensor& out) const {
  if (!same_shape(in, out)) reject(Text() << "input and output differ in shape");
}

void Arguments::expect_type(const Tensor& tensor, ScalarType type, const char* which) const {
  if (tensor.type != type) {
    reject(Text() << which << " is " << type_name(tensor.type) << ", expected " << type_name(type));
  }
}

void Arguments::reject_types(const Tensor& in, const Tensor& out) const {
  reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
}

void Arguments::reject_shapes() const { reject(Text() << "shapes of input and output do not belong together"); }

}  // namespace ethos_hil
