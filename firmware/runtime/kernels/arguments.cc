#include "runtime/kernels/arguments.h"

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
    case ValueKind::INT_LIST:
      return "a list of ints";
    default:
      return "of another kind";
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
  if (found.kind != ValueKind::INT) reject(Text() << "item " << item << " of argument " << position << " is no int");
  return found.integer;
}

std::uint32_t Arguments::dimension_bit(std::int64_t dimension, std::uint32_t rank) const {
  const auto limit = static_cast<std::int64_t>(rank);
  if (dimension < -limit || dimension >= limit) {
    reject(Text() << "dimension " << dimension << " of a tensor with " << rank << " dimensions");
  }
  return 1u << static_cast<std::uint32_t>(dimension < 0 ? dimension + limit : dimension);
}

}  // namespace ethos_hil
