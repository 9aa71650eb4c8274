#include "runtime/method.h"

#include <cstring>

#include "link/report.h"

namespace ethos_hil {

namespace {

constexpr char ETHOS_U_BACKEND[] = "EthosUBackend";

// Collects what is missing and sends it in as few ERROR frames as it fits into.
class MissingList {
 public:
  void add(const char* what, const char* name, const char* overload) {
    const std::uint32_t length = std::strlen(what) + std::strlen(name) + std::strlen(overload) + 4;
    if (!text_.empty() && text_.size() + length > Text::CAPACITY) send();
    text_ << (text_.empty() ? "this firmware lacks " : ", ") << what << name << (*overload == '\0' ? "" : ".")
          << overload;
  }

  void send() {
    if (text_.empty()) return;
    report_error(ErrorKind::UNSUPPORTED, text_);
    text_.clear();
    sent_ = true;
  }

  bool sent() const { return sent_; }

 private:
  Text text_;
  bool sent_ = false;
};

}  // namespace

Method::Method(const Program& program, const char* name, Memory& memory, const NpuMemory& npu_memory)
    : program_(program), plan_(program.plan(name)), value_count_(count(plan_.values())) {
  if (count(plan_.chains()) != 1) {
    fail(ErrorKind::PROGRAM, Text() << "method has " << count(plan_.chains()) << " chains, expected 1");
  }
  instructions_ = plan_.chains()->Get(0)->instructions();
  instruction_count_ = count(instructions_);
  check_supported();
  // The NPU's scratch first: it gains most from SRAM.
  const bool is_dedicated = npu_memory.mode == MemoryMode::DEDICATED_SRAM;
  load_delegates(memory, npu_memory);
  load_buffers(memory, is_dedicated ? Place::DDR : Place::SRAM_FIRST);
  load_values(memory);
  load_inputs();
  load_instructions();
  reset_values();
  kernels_ = memory.allocate_array<Kernel>(count(plan_.operators()), "table of operators");
  for (std::uint32_t i = 0; i < count(plan_.operators()); ++i) {
    kernels_[i] = find_kernel(text(op(i).name()), text(op(i).overload()));
  }
  // Last, because nothing needs it.
  if (npu_memory.mode == MemoryMode::SHARED_SRAM && memory.sram_free() >= npu_memory.fast_scratch) {
    load_fast_scratch(memory, npu_memory.fast_scratch);
  }
}

void Method::check_supported() const {
  MissingList missing;
  for (std::uint32_t i = 0; i < count(plan_.operators()); ++i) {
    const char* name = text(op(i).name());
    const char* overload = text(op(i).overload());
    if (find_kernel(name, overload) == nullptr) missing.add("operator ", name, overload);
  }
  for (std::uint32_t i = 0; i < delegate_count(); ++i) {
    const char* id = text(plan_.delegates()->Get(i)->id());
    if (std::strcmp(id, ETHOS_U_BACKEND) != 0) missing.add("delegate ", id, "");
  }
  missing.send();
  if (missing.sent()) finish(1);
}

void Method::load_delegates(Memory& memory, const NpuMemory& npu_memory) {
  delegates_ = memory.allocate_array<npu::Delegate>(delegate_count(), "table of delegates");
  for (std::uint32_t i = 0; i < delegate_count(); ++i) {
    const Bytes blob = program_.delegate_data(i, plan_.delegates()->Get(i)->processed());
    delegates_[i] = npu::Delegate(i, blob);
    if (delegates_[i].scratch_size() > scratch_bytes_) scratch_bytes_ = delegates_[i].scratch_size();
  }
  if (delegate_count() == 0) return;
  const std::uint32_t used_before = memory.used();
  Place place = Place::SRAM_FIRST;
  if (npu_memory.mode == MemoryMode::SRAM_ONLY) {
    place = Place::SRAM;
    for (std::uint32_t i = 0; i < delegate_count(); ++i) delegates_[i].move_constants(memory);
  } else if (npu_memory.mode == MemoryMode::DEDICATED_SRAM) {
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
  for (std::uint32_t i = 0; i < delegate_count(); ++i) delegates_[i].set_fast_scratch(fast_scratch);
  fast_scratch_bytes_ = size;
  npu_bytes_ += memory.used() - used_before;
}

void Method::load_buffers(Memory& memory, Place place) {
  // Entry 0 is reserved; memory_id n of a tensor is entry n.
  const auto* sizes = aligned(plan_.non_const_buffer_sizes(), "table of planned buffers");
  buffer_count_ = count(sizes);
  buffers_ = memory.allocate_array<Buffer>(buffer_count_, "table of buffers");
  for (std::uint32_t i = 1; i < buffer_count_; ++i) {
    const std::int64_t size = sizes->Get(i);
    if (size < 0) fail(ErrorKind::PROGRAM, Text() << "planned buffer " << i << " has " << size << " bytes");
    buffers_[i].data = memory.allocate(static_cast<std::uint64_t>(size), "planned memory", place);
    buffers_[i].size = static_cast<std::uint32_t>(size);
    planned_bytes_ += buffers_[i].size;
  }
}

void Method::load_values(Memory& memory) {
  values_ = memory.allocate_array<Value>(value_count_, "table of values");
  initial_values_ = memory.allocate_array<Value>(value_count_, "table of values");
  for (std::uint32_t i = 0; i < value_count_; ++i) {
    const pte::EValue* source = plan_.values()->Get(i);
    Value& value = initial_values_[i];
    // A flatbuffer that verifies may still state a union's type and have no value for it.
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
        value.tensor = load_tensor(i, *source->val_as_Tensor());
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

void Method::load_inputs() {
  for (std::uint32_t i = 0; i < input_count(); ++i) {
    const Value& value = input(i);
    switch (value.kind) {
      case ValueKind::NONE:
      case ValueKind::INT:
      case ValueKind::BOOL:
      case ValueKind::DOUBLE:
        break;
      case ValueKind::TENSOR:
        if (value.tensor.data != nullptr && value.tensor.writable) break;
        [[fallthrough]];
      default:
        fail(ErrorKind::UNSUPPORTED, Text() << "input " << i << " is no tensor with planned memory");
    }
  }
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

Tensor Method::load_tensor(std::uint32_t index, const pte::Tensor& source) const {
  Tensor tensor{};
  tensor.type = source.scalar_type();
  const std::uint32_t size = element_size(tensor.type);
  if (size == 0) {
    fail(ErrorKind::UNSUPPORTED, Text() << "value " << index << " is a tensor of type " << type_name(tensor.type)
                                        << " (" << static_cast<int>(tensor.type) << ")");
  }
  if (source.shape_dynamism() != pte::TensorShapeDynamism::STATIC &&
      source.shape_dynamism() != pte::TensorShapeDynamism::DYNAMIC_BOUND) {
    fail(ErrorKind::UNSUPPORTED, Text() << "value " << index << " is a tensor without an upper bound on its shape");
  }
  const pte::ExtraTensorInfo* extra = source.extra_tensor_info();
  if (extra != nullptr &&
      (extra->location() != pte::TensorDataLocation::SEGMENT || extra->device_type() != pte::DeviceType::CPU)) {
    fail(ErrorKind::UNSUPPORTED, Text() << "value " << index << " is a tensor outside the program or the CPU's memory");
  }
  const std::uint32_t rank = count(source.sizes());
  if (rank > MAX_RANK || rank != count(source.dim_order()) || source.storage_offset() != 0) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " is a tensor with " << rank << " sizes, "
                                    << count(source.dim_order()) << " in dim_order and storage offset "
                                    << source.storage_offset());
  }
  tensor.rank = static_cast<std::uint8_t>(rank);
  std::uint64_t elements = 1;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const std::int32_t extent = source.sizes()->Get(i);
    const std::uint8_t dimension = source.dim_order()->Get(i);
    elements *= extent < 0 ? std::uint64_t{UINT32_MAX} : static_cast<std::uint32_t>(extent);
    seen |= dimension < rank ? 1u << dimension : 0;
    if (elements > INT32_MAX / size) {
      fail(ErrorKind::PROGRAM, Text() << "value " << index << ": size " << i << " of the tensor is " << extent
                                      << ", which makes it too large");
    }
  }
  if (seen != (1u << rank) - 1) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << ": the tensor's dim_order is no permutation");
  }
  if (rank != 0) {
    tensor.sizes = source.sizes()->data();
    tensor.dim_order = source.dim_order()->data();
  }
  tensor.elements = static_cast<std::uint32_t>(elements);
  tensor.nbytes = tensor.elements * size;

  const pte::AllocationDetails* where = source.allocation_info();
  if (where != nullptr) {
    if (source.data_buffer_idx() != 0) {
      fail(ErrorKind::UNSUPPORTED, Text() << "value " << index << " is a variable with an initial value");
    }
    tensor.writable = true;
    tensor.data = planned_memory(index, *where, tensor.nbytes);
  } else if (source.data_buffer_idx() != 0) {
    // Nothing writes through it: `writable` is checked before every write.
    tensor.data = const_cast<std::uint8_t*>(program_.constant(source.data_buffer_idx(), tensor.nbytes).data);
  }
  if (!is_aligned(tensor.data, size)) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " is a tensor of " << type_name(tensor.type)
                                    << " whose data is not aligned to " << size << " bytes");
  }
  return tensor;
}

std::uint8_t* Method::planned_memory(std::uint32_t index, const pte::AllocationDetails& where,
                                     std::uint32_t nbytes) const {
  const std::uint64_t offset = std::uint64_t{where.memory_offset_high()} << 32 | where.memory_offset_low();
  const std::uint32_t id = where.memory_id();
  if (id == 0 || id >= buffer_count_ || offset > buffers_[id].size || nbytes > buffers_[id].size - offset) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " (" << nbytes << " bytes at " << offset
                                    << " of planned buffer " << id << ") lies outside the planned memory");
  }
  return buffers_[id].data + offset;
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
        // One past the last instruction is the end of the method.
        check_index(step.instr_args_as_JumpFalseCall()->destination_instruction(), instruction_count_ + 1,
                    "instruction", i);
        break;
      case pte::InstructionArguments::FreeCall:
        check_index(step.instr_args_as_FreeCall()->value_index(), value_count_, "value", i);
        break;
      default:
        fail(ErrorKind::PROGRAM, Text() << "instruction " << i << " has type "
                                        << static_cast<int>(step.instr_args_type())
                                        << ", which is none this firmware knows");
    }
  }
}

}  // namespace ethos_hil
