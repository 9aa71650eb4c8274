#include "runtime/support.h"

#include <cstring>

#include "npu/blob.h"
#include "npu/driver.h"
#include "npu/payload.h"
#include "runtime/operators.h"
#include "runtime/refusals.h"
#include "runtime/tensor.h"

namespace ethos_hil {

namespace {

void check_operators(const pte::ExecutionPlan& plan, Refusals& refusals) {
  for (std::uint32_t i = 0; i < count(plan.operators()); ++i) {
    const char* name = text(plan.operators()->Get(i)->name());
    const char* overload = text(plan.operators()->Get(i)->overload());
    if (find_kernel(name, overload) != nullptr) continue;
    refusals.lack(Text() << "operator " << name << (*overload == '\0' ? "" : ".") << overload);
  }
}

// A malformed blob ends in ERROR PROGRAM at once.
void check_delegates(const Program& program, const pte::ExecutionPlan& plan, Refusals& refusals) {
  for (std::uint32_t i = 0; i < count(plan.delegates()); ++i) {
    const pte::BackendDelegate* delegate = plan.delegates()->Get(i);
    const char* id = text(delegate->id());
    if (std::strcmp(id, ETHOS_U_BACKEND) != 0) {
      refusals.lack(Text() << "delegate " << id);
      continue;
    }
    const npu::Blob blob(program.delegate_data(i, delegate->processed()), i, &program);
    const npu::Payload payload(blob.command_data, i);
    Text reason;
    reason << "delegate " << i << " is compiled for " << payload.compiled_for << ", ";
    if (npu::explain_mismatch(payload.compiled_for, reason)) refusals.add(ErrorKind::NPU_MISMATCH, reason);
  }
}

void check_tensor(const Program& program, std::uint32_t index, const pte::Tensor& tensor, Refusals& refusals) {
  const auto value = [index] {
    Text start;
    start << "value " << index << " is a tensor ";
    return start;
  };
  if (element_size(tensor.scalar_type()) == 0) {
    refusals.add(value() << "of type " << type_name(tensor.scalar_type()) << " ("
                         << static_cast<int>(tensor.scalar_type()) << ")");
  }
  if (tensor.shape_dynamism() != pte::TensorShapeDynamism::STATIC &&
      tensor.shape_dynamism() != pte::TensorShapeDynamism::DYNAMIC_BOUND) {
    refusals.add(value() << "without an upper bound on its shape");
  }
  const pte::ExtraTensorInfo* extra = tensor.extra_tensor_info();
  if (extra != nullptr && extra->location() != pte::TensorDataLocation::SEGMENT) {
    const char* name = text(extra->fully_qualified_name());
    if (extra->location() != pte::TensorDataLocation::EXTERNAL) {
      refusals.add(value() << "whose data is at location " << static_cast<int>(extra->location()));
    } else if (program.named(name, std::strlen(name)).data == nullptr) {
      refusals.add(value() << "whose data is in another file, as '" << name << "', which was not given");
    }
  }
  if (extra != nullptr && extra->device_type() != pte::DeviceType::CPU) {
    refusals.add(value() << "in the memory of a " << pte::EnumNameDeviceType(extra->device_type()));
  }
  if (tensor.data_buffer_idx() != 0 && tensor.allocation_info() == nullptr && program.has_inline_constants()) {
    refusals.add(value() << "whose data is in constant_buffer, where exporters before ExecuTorch 0.4 put constants: "
                         << "export the program again");
  }
}

void check_values(const Program& program, const pte::ExecutionPlan& plan, Refusals& refusals) {
  for (std::uint32_t i = 0; i < count(plan.values()); ++i) {
    const pte::Tensor* tensor = plan.values()->Get(i)->val_as_Tensor();
    if (tensor != nullptr) check_tensor(program, i, *tensor, refusals);
  }
}

void check_buffers(const pte::ExecutionPlan& plan, Refusals& refusals) {
  for (std::uint32_t i = 0; i < count(plan.non_const_buffer_device()); ++i) {
    const pte::NonConstBufferDevice* buffer = plan.non_const_buffer_device()->Get(i);
    if (buffer->device_type() == pte::DeviceType::CPU) continue;
    refusals.add(Text() << "planned buffer " << buffer->buffer_idx() << " is in the memory of a "
                        << pte::EnumNameDeviceType(buffer->device_type()));
  }
}

}  // namespace

void check_support(const Program& program, const pte::ExecutionPlan& plan) {
  Refusals refusals;
  check_operators(plan, refusals);
  check_delegates(program, plan, refusals);
  check_values(program, plan, refusals);
  check_buffers(plan, refusals);
  refusals.conclude();
}

}  // namespace ethos_hil
