#include "runtime/method.h"

#include "link/report.h"
#include "runtime/support.h"

namespace ethos_hil {

Method::Method(const Program& program, const char* name, Memory& memory, const NpuMemory& npu_memory)
    : program_(program), plan_(program.plan(name)), value_count_(count(plan_.values())) {
  if (count(plan_.chains()) != 1) {
    fail(ErrorKind::PROGRAM, Text() << "method has " << count(plan_.chains()) << " chains, expected 1");
  }
  instructions_ = plan_.chains()->Get(0)->instructions();
  instruction_count_ = count(instructions_);
  check_support(program_, plan_);
  Storage storage(program_, plan_, memory);
  // The NPU's scratch comes before the rest of planned memory: it gains most from SRAM.
  const bool is_dedicated = npu_memory.mode == DeviceMemoryMode::DEDICATED_SRAM;
  load_delegates(memory, npu_memory);
  storage.allocate(memory, is_dedicated ? Place::DDR : Place::SRAM_FIRST);
  planned_bytes_ = storage.planned_bytes();
  load_values(storage, memory);
  load_instructions();
  load_inputs(memory);
  load_outputs(memory);
  reset_values();
  kernels_ = memory.allocate_array<Kernel>(count(plan_.operators()), "table of operators");
  for (std::uint32_t i = 0; i < count(plan_.operators()); ++i) {
    kernels_[i] = find_kernel(text(op(i).name()), text(op(i).overload()));
  }
  // Comes last, because programs run without it.
  if (npu_memory.mode == DeviceMemoryMode::SHARED_SRAM) {
    const bool has_room = memory.sram_free() >= npu_memory.fast_scratch;
    const std::uint32_t size = has_room ? npu_memory.fast_scratch : npu_memory.smaller_fast_scratch;
    if (memory.sram_free() >= size) load_fast_scratch(memory, size);
  }
}

void Method::load_delegates(Memory& memory, const NpuMemory& npu_memory) {
  delegates_ = memory.allocate_array<npu::Delegate>(delegate_count(), "table of delegates");
  for (std::uint32_t i = 0; i < delegate_count(); ++i) {
    const Bytes blob = program_.delegate_data(i, plan_.delegates()->Get(i)->processed());
    delegates_[i] = npu::Delegate(i, blob, &program_);
    if (delegates_[i].scratch_size() > scratch_bytes_) scratch_bytes_ = delegates_[i].scratch_size();
  }
  if (delegate_count() == 0) return;
  const std::uint32_t used_before = memory.used();
  Place place = Place::SRAM_FIRST;
  if (npu_memory.mode == DeviceMemoryMode::SRAM_ONLY) {
    place = Place::SRAM;
    for (std::uint32_t i = 0; i < delegate_count(); ++i) delegates_[i].move_constants(memory);
  } else if (npu_memory.mode == DeviceMemoryMode::DEDICATED_SRAM) {
    place = Place::DDR;
    load_fast_scratch(memory, npu_memory.fast_scratch);
  }
  // Delegates run one after the other and keep nothing between calls, so one scratch serves all.
  std::uint8_t* scratch = memory.allocate(scratch_bytes_, "NPU scratch", place);
  for (std::uint32_t i = 0; i < delegate_count(); ++i) delegates_[i].set_scratch(scratch);
  npu_bytes_ = memory.used() - used_before;
}

void Method::load_fast_scratch(Memory& memory, std::uint32_t size) {
  if (size == 0 || delegate_count() == 0) return;
  const std::uint32_t used_before = memory.used();
  std::uint8_t* fast_scratch = memory.allocate(size, "fast scratch of the NPU", Place::SRAM);
  for (std::uint32_t i = 0; i < delegate_count(); ++i) delegates_[i].set_fast_scratch(fast_scratch, size);
  fast_scratch_bytes_ = size;
  npu_bytes_ += memory.used() - used_before;
}

void Method::load_values(const Storage& storage, Memory& memory) {
  values_ = memory.allocate_array<Value>(value_count_, "table of values");
  initial_values_ = memory.allocate_array<Value>(value_count_, "table of values");
  for (std::uint32_t i = 0; i < value_count_; ++i) {
    const pte::EValue* source = plan_.values()->Get(i);
    Value& value = initial_values_[i];
    // A valid flatbuffer may state a union's type and have no value for it.
    const bool is_null = source->val_type() == pte::KernelTypes::NONE || source->val_type() == pte::KernelTypes::Null;
    if (source->val() == nullptr && !is_null) {
      fail(ErrorKind::PROGRAM, Text() << "value " << i << " states its type, but no value");
    }
    switch (source->val_type()) {
      case pte::KernelTypes::NONE:
      case pte::KernelTypes::Null:
        value.kind = ValueKind::NONE;
        break;
      case pte::KernelTypes::Int:
        value.kind = ValueKind::INT;
        value.integer = source->val_as_Int()->int_val();
        break;
      case pte::KernelTypes::Bool:
        value.kind = ValueKind::BOOL;
        value.boolean = source->val_as_Bool()->bool_val();
        break;
      case pte::KernelTypes::Double:
        value.kind = ValueKind::DOUBLE;
        value.real = source->val_as_Double()->double_val();
        break;
      case pte::KernelTypes::Tensor:
        value.kind = ValueKind::TENSOR;
        value.tensor = storage.tensor(i, *source->val_as_Tensor());
        break;
      case pte::KernelTypes::String:
        value.kind = ValueKind::STRING;
        value.string = source->val_as_String()->string_val();
        break;
      case pte::KernelTypes::IntList:
        value.kind = ValueKind::INT_LIST;
        value.int_list = aligned(source->val_as_IntList()->items(), "list of ints");
        check_items(i, value.int_list, 0);
        break;
      case pte::KernelTypes::BoolList:
        value.kind = ValueKind::BOOL_LIST;
        value.bool_list = source->val_as_BoolList()->items();
        break;
      case pte::KernelTypes::DoubleList:
        value.kind = ValueKind::DOUBLE_LIST;
        value.double_list = aligned(source->val_as_DoubleList()->items(), "list of floats");
        break;
      case pte::KernelTypes::TensorList:
        value.kind = ValueKind::TENSOR_LIST;
        value.tensor_list = source->val_as_TensorList()->items();
        check_items(i, value.tensor_list, 0);
        break;
      case pte::KernelTypes::OptionalTensorList:
        value.kind = ValueKind::OPTIONAL_TENSOR_LIST;
        value.tensor_list = source->val_as_OptionalTensorList()->items();
        check_items(i, value.tensor_list, -1);
        break;
      default:
        fail(ErrorKind::PROGRAM, Text() << "value " << i << " is of kind " << static_cast<int>(source->val_type())
                                        << ", which this firmware does not know");
    }
  }
  for (const auto* list : {plan_.inputs(), plan_.outputs()}) {
    for (std::uint32_t i = 0; i < count(list); ++i) {
      if (list->Get(i) < 0 || static_cast<std::uint32_t>(list->Get(i)) >= value_count_) {
        fail(ErrorKind::PROGRAM, Text() << (list == plan_.inputs() ? "input " : "output ") << i << " is value "
                                        << list->Get(i) << " of " << value_count_);
      }
    }
  }
}

// A program may leave the memory of inputs and outputs to its user. The firmware allocates it.
void Method::give_memory(std::uint32_t value, const char* purpose, Memory& memory) {
  Tensor& tensor = initial_values_[value].tensor;
  if (tensor.data == nullptr) tensor.data = memory.allocate(tensor.nbytes, purpose);
}

void Method::load_inputs(Memory& memory) {
  for (std::uint32_t i = 0; i < input_count(); ++i) {
    const auto index = static_cast<std::uint32_t>(plan_.inputs()->Get(i));
    const Value& value = initial_values_[index];
    switch (value.kind) {
      case ValueKind::NONE:
      case ValueKind::INT:
      case ValueKind::BOOL:
      case ValueKind::DOUBLE:
        break;
      case ValueKind::TENSOR:
        if (!value.tensor.writable) fail(ErrorKind::PROGRAM, Text() << "input " << i << " is a constant");
        give_memory(index, "input", memory);
        break;
      default:
        fail(ErrorKind::UNSUPPORTED, Text() << "input " << i << " is a list or a string");
    }
  }
}

void Method::load_outputs(Memory& memory) {
  for (std::uint32_t i = 0; i < output_count(); ++i) {
    const auto index = static_cast<std::uint32_t>(plan_.outputs()->Get(i));
    if (initial_values_[index].kind == ValueKind::TENSOR && !is_move_target(index)) {
      give_memory(index, "output", memory);
    }
  }
}

bool Method::is_move_target(std::uint32_t value) const {
  for (std::uint32_t i = 0; i < instruction_count_; ++i) {
    const pte::MoveCall* move = instruction(i).instr_args_as_MoveCall();
    if (move != nullptr && static_cast<std::uint32_t>(move->move_to()) == value) return true;
  }
  return false;
}

template <typename Items>
void Method::check_items(std::uint32_t list, const Items* items, std::int64_t lowest) const {
  for (std::uint32_t i = 0; i < count(items); ++i) {
    const std::int64_t item = items->Get(i);
    if (item < lowest || item >= value_count_) {
      fail(ErrorKind::PROGRAM,
           Text() << "item " << i << " of list " << list << " is value " << item << " of " << value_count_);
    }
  }
}

void Method::reset_values() {
  for (std::uint32_t i = 0; i < value_count_; ++i) values_[i] = initial_values_[i];
}

void Method::check_index(std::int64_t index, std::uint32_t limit, const char* what, std::uint32_t instruction) const {
  if (index < 0 || index >= limit) {
    fail(ErrorKind::PROGRAM,
         Text() << "instruction " << instruction << " refers to " << what << " " << index << " of " << limit);
  }
}

void Method::check_arguments(const flatbuffers::Vector<std::int32_t>* arguments, std::uint32_t instruction) const {
  for (std::uint32_t i = 0; i < count(arguments); ++i)
    check_index(arguments->Get(i), value_count_, "value", instruction);
}

void Method::load_instructions() {
  for (std::uint32_t i = 0; i < instruction_count_; ++i) {
    const pte::Instruction& step = instruction(i);
    if (step.instr_args() == nullptr) fail(ErrorKind::PROGRAM, Text() << "instruction " << i << " is empty");
    switch (step.instr_args_type()) {
      case pte::InstructionArguments::KernelCall:
        check_index(step.instr_args_as_KernelCall()->op_index(), count(plan_.operators()), "operator", i);
        check_arguments(step.instr_args_as_KernelCall()->args(), i);
        break;
      case pte::InstructionArguments::DelegateCall:
        check_index(step.instr_args_as_DelegateCall()->delegate_index(), delegate_count(), "delegate", i);
        check_arguments(step.instr_args_as_DelegateCall()->args(), i);
        break;
      case pte::InstructionArguments::MoveCall:
        check_index(step.instr_args_as_MoveCall()->move_from(), value_count_, "value", i);
        check_index(step.instr_args_as_MoveCall()->move_to(), value_count_, "value", i);
        break;
      case pte::InstructionArguments::JumpFalseCall:
        check_index(step.instr_args_as_JumpFalseCall()->cond_value_index(), value_count_, "value", i);
        // The index after the last instruction is the end of the method.
        check_index(step.instr_args_as_JumpFalseCall()->destination_instruction(), instruction_count_ + 1,
                    "instruction", i);
        break;
      case pte::InstructionArguments::FreeCall:
        check_index(step.instr_args_as_FreeCall()->value_index(), value_count_, "value", i);
        break;
      default:
        fail(ErrorKind::PROGRAM, Text() << "instruction " << i << " has type "
                                        << static_cast<int>(step.instr_args_type())
                                        << ", which this firmware does not know");
    }
  }
}

}  // namespace ethos_hil
