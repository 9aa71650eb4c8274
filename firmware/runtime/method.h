// A method ready to run: values with their memory, operators with their kernels, delegates with their blobs. Everything
// that an instruction refers to is checked here, so that the executor can use indices unchecked.
#pragma once

#include <cstdint>

#include "npu/delegate.h"
#include "runtime/memory.h"
#include "runtime/operators.h"
#include "runtime/program.h"
#include "runtime/storage.h"
#include "runtime/value.h"

namespace ethos_hil {

// The places of the NPU's memories.
struct NpuMemory {
  DeviceMemoryMode mode;
  // Bytes of fast scratch. With DEDICATED_SRAM they are required; with SHARED_SRAM, whose programs work without, they
  // are taken from the SRAM that is left, if it is enough for them or for the smaller number.
  std::uint32_t fast_scratch;
  std::uint32_t smaller_fast_scratch = 0;
};

class Method {
 public:
  // Ends in an error: UNSUPPORTED and NPU_MISMATCH (all missing items at once), PROGRAM, OUT_OF_MEMORY.
  Method(const Program& program, const char* name, Memory& memory, const NpuMemory& npu_memory);

  std::uint32_t value_count() const { return value_count_; }
  Value& value(std::uint32_t index) { return values_[index]; }

  std::uint32_t input_count() const { return count(plan_.inputs()); }
  // A tensor with memory that may be written; or an int, a bool, a double or none, whose value is part of the program.
  const Value& input(std::uint32_t index) const { return initial_values_[plan_.inputs()->Get(index)]; }
  std::uint32_t output_count() const { return count(plan_.outputs()); }
  // An output may be replaced by a MoveCall, so the caller must check its kind.
  Value& output(std::uint32_t index) { return values_[output_value(index)]; }
  std::uint32_t output_value(std::uint32_t index) const {
    return static_cast<std::uint32_t>(plan_.outputs()->Get(index));
  }

  std::uint32_t instruction_count() const { return instruction_count_; }
  const pte::Instruction& instruction(std::uint32_t index) const { return *instructions_->Get(index); }

  Kernel kernel(std::uint32_t op_index) const { return kernels_[op_index]; }
  const pte::Operator& op(std::uint32_t op_index) const { return *plan_.operators()->Get(op_index); }

  std::uint32_t delegate_count() const { return count(plan_.delegates()); }
  const npu::Delegate& delegate(std::uint32_t index) const { return delegates_[index]; }

  std::uint32_t planned_bytes() const { return planned_bytes_; }
  std::uint32_t scratch_bytes() const { return scratch_bytes_; }
  std::uint32_t fast_scratch_bytes() const { return fast_scratch_bytes_; }
  // All memory taken for the NPU: both scratches, and with SRAM_ONLY the copies of command streams and weights.
  std::uint32_t npu_bytes() const { return npu_bytes_; }

  // Restores the table of values to the program's, because MoveCall and FreeCall change it.
  void reset_values();

 private:
  void load_delegates(Memory& memory, const NpuMemory& npu_memory);
  void load_fast_scratch(Memory& memory, std::uint32_t size);
  void load_values(const Storage& storage, Memory& memory);
  void load_inputs(Memory& memory);
  void load_outputs(Memory& memory);
  void give_memory(std::uint32_t value, const char* purpose, Memory& memory);
  bool is_move_target(std::uint32_t value) const;
  void load_instructions();
  // Whether every item of a list is the index of a value, or equals `lowest`.
  template <typename Items>
  void check_items(std::uint32_t list, const Items* items, std::int64_t lowest) const;
  void check_index(std::int64_t index, std::uint32_t limit, const char* what, std::uint32_t instruction) const;
  void check_arguments(const flatbuffers::Vector<std::int32_t>* arguments, std::uint32_t instruction) const;

  const Program& program_;
  const pte::ExecutionPlan& plan_;
  const flatbuffers::Vector<flatbuffers::Offset<pte::Instruction>>* instructions_ = nullptr;
  std::uint32_t instruction_count_ = 0;
  std::uint32_t value_count_ = 0;
  Value* values_ = nullptr;
  Value* initial_values_ = nullptr;
  Kernel* kernels_ = nullptr;
  npu::Delegate* delegates_ = nullptr;
  std::uint32_t planned_bytes_ = 0;
  std::uint32_t scratch_bytes_ = 0;
  std::uint32_t fast_scratch_bytes_ = 0;
  std::uint32_t npu_bytes_ = 0;
};

}  // namespace ethos_hil
