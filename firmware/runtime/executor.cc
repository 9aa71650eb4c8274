#include "runtime/executor.h"

#include "link/report.h"
#include "runtime/final_output.h"
#include "runtime/results.h"
#include "runtime/step_clock.h"

namespace ethos_hil {

namespace {

void call_kernel(Method& method, std::uint32_t at, const pte::KernelCall& call) {
  const auto op_index = static_cast<std::uint32_t>(call.op_index());
  const Arguments arguments(&method.value(0), call.args(), at, text(method.op(op_index).name()));
  step_clock::begin();
  method.kernel(op_index)(arguments);
  step_clock::mark(StepPart::KERNEL);
  step_clock::send(at);
}

void call_delegate(Method& method, std::uint32_t at, const pte::DelegateCall& call, const ExecuteOptions& options) {
  const auto index = static_cast<std::uint32_t>(call.delegate_index());
  const npu::Delegate& delegate = method.delegate(index);
  const Arguments arguments(&method.value(0), call.args(), at, "delegate");
  const std::uint32_t inputs = delegate.input_count();
  const std::uint32_t outputs = delegate.output_count();
  arguments.expect_count(inputs + outputs);

  const auto prepare = [&] {
    delegate.spoil_outputs();
    step_clock::begin();
    for (std::uint32_t i = 0; i < inputs; ++i) delegate.copy_input(i, arguments.tensor(i), at);
    step_clock::mark(StepPart::INPUTS);
  };
  for (std::uint32_t i = 0; i < options.cut_count; ++i) {
    if (options.cuts[i].delegate != index) continue;
    prepare();
    options.count(at, index, delegate.run_prefix(options.cuts[i].offset, options.npu_timeout_ms, at));
  }
  prepare();
  const npu::JobCounters counters = delegate.run(options.npu_timeout_ms, at);
  for (std::uint32_t i = 0; i < outputs; ++i) delegate.copy_output(i, arguments.out(inputs + i), at);
  step_clock::mark(StepPart::OUTPUTS);

  if (options.send_delegate_outputs) {
    for (std::uint32_t i = 0; i < outputs; ++i) {
      const auto value = static_cast<std::uint32_t>(call.args()->Get(inputs + i));
      send_delegate_output(i, at, arguments.tensor(inputs + i), final_output(method, value, at));
    }
  }
  options.count(at, index, counters);
  step_clock::send(at);
}

// True only if every element is; an empty tensor is true, as upstream.
bool is_true(Method& method, std::uint32_t at, std::uint32_t index) {
  const Value& value = method.value(index);
  if (value.kind == ValueKind::BOOL) return value.boolean;
  if (value.kind != ValueKind::TENSOR || value.tensor.type != ScalarType::BOOL || value.tensor.data == nullptr) {
    fail(ErrorKind::PROGRAM, Text() << "instruction " << at << " jumps on value " << index << ", which is not a bool");
  }
  for (std::uint32_t i = 0; i < value.tensor.elements; ++i) {
    if (value.tensor.data[i] == 0) return false;
  }
  return true;
}

}  // namespace

void execute(Method& method, const ExecuteOptions& options) {
  std::uint32_t at = 0;
  for (std::uint32_t step = 0; at < method.instruction_count(); ++step) {
    if (step == options.max_steps) {
      fail(ErrorKind::PROGRAM, Text() << "instruction " << at << ": the method did not end within " << step
                                      << " instructions: does it jump backwards for ever?");
    }
    const pte::Instruction& instruction = method.instruction(at);
    std::uint32_t next = at + 1;
    switch (instruction.instr_args_type()) {
      case pte::InstructionArguments::KernelCall:
        call_kernel(method, at, *instruction.instr_args_as_KernelCall());
        break;
      case pte::InstructionArguments::DelegateCall:
        call_delegate(method, at, *instruction.instr_args_as_DelegateCall(), options);
        break;
      case pte::InstructionArguments::MoveCall: {
        // The handle moves, not the bytes.
        const auto* move = instruction.instr_args_as_MoveCall();
        method.value(move->move_to()) = method.value(move->move_from());
        break;
      }
      case pte::InstructionArguments::JumpFalseCall: {
        const auto* jump = instruction.instr_args_as_JumpFalseCall();
        if (!is_true(method, at, jump->cond_value_index())) next = jump->destination_instruction();
        break;
      }
      case pte::InstructionArguments::FreeCall: {
        // Only tensors have memory to free. Planned memory stays planned; only the handle loses it.
        Value& value = method.value(instruction.instr_args_as_FreeCall()->value_index());
        if (value.kind == ValueKind::TENSOR) value.tensor.data = nullptr;
        break;
      }
      default:
        __builtin_trap();  // Method refuses every other type
    }
    at = next;
  }
}

}  // namespace ethos_hil
