#include "runtime/final_output.h"

namespace ethos_hil {

namespace {

bool has(const flatbuffers::Vector<std::int32_t>* values, std::uint32_t value) {
  for (std::uint32_t i = 0; i < count(values); ++i) {
    if (values->Get(i) == static_cast<std::int32_t>(value)) return true;
  }
  return false;
}

bool is_in_a_list(Method& method, std::uint32_t value) {
  for (std::uint32_t i = 0; i < method.value_count(); ++i) {
    const Value& other = method.value(i);
    const bool is_list = other.kind == ValueKind::TENSOR_LIST || other.kind == ValueKind::OPTIONAL_TENSOR_LIST;
    if (is_list && has(other.tensor_list, value)) return true;
  }
  return false;
}

// Any instruction that names the value may change it, for all that is known here; a jump may lead back.
bool may_change(const pte::Instruction& instruction, std::uint32_t value) {
  switch (instruction.instr_args_type()) {
    case pte::InstructionArguments::KernelCall:
      return has(instruction.instr_args_as_KernelCall()->args(), value);
    case pte::InstructionArguments::DelegateCall:
      return has(instruction.instr_args_as_DelegateCall()->args(), value);
    default:
      return true;
  }
}

}  // namespace

std::uint32_t final_output(Method& method, std::uint32_t value, std::uint32_t at) {
  std::uint32_t output = 0;
  while (output < method.output_count() && method.output_value(output) != value) ++output;
  if (output == method.output_count() || is_in_a_list(method, value)) return NO_OUTPUT;
  for (std::uint32_t later = at + 1; later < method.instruction_count(); ++later) {
    if (may_change(method.instruction(later), value)) return NO_OUTPUT;
  }
  return output;
}

}  // namespace ethos_hil
