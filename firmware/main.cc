// The modes of the firmware. With a package in memory: the conversation over the UART. Without one, but with a host
// that answers semihosting calls and gives arguments: the runner of files (runner/runner.h). Where the loader asks for
// it, the monitor comes first, takes the package from the line, and comes back after the run (monitor/monitor.h).
//
// The conversation: HELLO, LOADED, then for every run of the plan RUN_BEGIN, results, RUN_END; at last END.
// harness/image/formats.py describes the frames. Any error ends it earlier, with an ERROR or FAULT frame and END.
#include <cstring>

#include "boards/board.h"
#include "link/frames.h"
#include "link/report.h"
#include "monitor/mailbox.h"
#include "monitor/monitor.h"
#include "npu/driver.h"
#include "runner/runner.h"
#include "runtime/bundle.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/method.h"
#include "runtime/package.h"
#include "runtime/results.h"
#include "runtime/self_check.h"
#include "runtime/step_clock.h"

namespace {

using namespace ethos_hil;

// Without a package the hashes and the run's id are zeros.
void send_hello(const Package* package) {
  const board::Identity board = board::identity();
  const npu::Identity npu = npu::identify();
  Hello hello{};
  hello.protocol = PROTOCOL_VERSION;
  hello.board = board.number;
  hello.cpu_hz = board.cpu_hz;
  hello.uart = static_cast<std::uint32_t>(board::console());
  hello.npu_id = npu.id;
  hello.npu_config = npu.config;
  if (package != nullptr) {
    std::memcpy(hello.run_id, package->run_id(), sizeof hello.run_id);
    std::memcpy(hello.image_hash, package->image_hash(), sizeof hello.image_hash);
    std::memcpy(hello.program_hash, package->program_hash().bytes, sizeof hello.program_hash);
  }
  frames::send(FrameType::HELLO, &hello, sizeof hello);
}

void send_loaded(const Method& method, const Memory& memory) {
  Loaded loaded{};
  loaded.inputs = method.input_count();
  loaded.outputs = method.output_count();
  loaded.instructions = method.instruction_count();
  loaded.delegates = method.delegate_count();
  loaded.planned_bytes = method.planned_bytes();
  loaded.scratch_bytes = method.scratch_bytes();
  loaded.fast_scratch_bytes = method.fast_scratch_bytes();
  loaded.sram_used = memory.sram_used();
  loaded.sram_size = memory.sram_size();
  loaded.ddr_used = memory.ddr_used();
  loaded.ddr_size = memory.ddr_size();
  loaded.stack_size = board::stack_size();
  frames::send(FrameType::LOADED, &loaded, sizeof loaded);
}

// Called before the first run, so that a wrong last set does not waste all runs before it.
void check_inputs(const Package& package, Method& method) {
  const PackageHeader& plan = package.header();
  if (plan.inputs_per_set != method.input_count()) {
    fail(ErrorKind::INPUT, Text() << "method '" << Characters{plan.method, sizeof plan.method} << "' takes "
                                  << method.input_count() << " inputs, the package has " << plan.inputs_per_set
                                  << " in each set");
  }
  for (std::uint32_t set = 0; set < plan.input_set_count; ++set) {
    for (std::uint32_t i = 0; i < plan.inputs_per_set; ++i) {
      const Bytes given = package.input(set, i);
      const Value& value = method.input(i);
      Tensor tensor{};
      if (!as_tensor(value, tensor)) continue;  // any bytes may stand for a none
      if (given.size != tensor.nbytes) {
        fail(ErrorKind::INPUT, Text() << "input " << i << " of set " << set << " has " << given.size
                                      << " bytes, expected " << tensor.nbytes << " (" << tensor.elements << " of "
                                      << type_name(tensor.type) << ")");
      }
      // A number is part of the program and cannot be set, so the value in the package must be the same.
      if (value.kind != ValueKind::TENSOR && std::memcmp(given.data, tensor.data, tensor.nbytes) != 0) {
        fail(ErrorKind::INPUT, Text() << "input " << i << " of set " << set << " is not the value the program was "
                                      << "exported with, and is not a tensor that could be set");
      }
    }
  }
}

void check_cases(const TestCases& cases, const PackageHeader& plan, const Method& method) {
  if (cases.count() != plan.input_set_count) {
    fail(ErrorKind::INPUT, Text() << "the bundle has " << cases.count() << " test cases of method '"
                                  << Characters{plan.method, sizeof plan.method} << "', the package is to run "
                                  << plan.input_set_count);
  }
  cases.check_inputs(method);
}

// Before the first run, so that the executor can use them unchecked.
void check_cuts(const Package& package, const Method& method) {
  for (std::uint32_t i = 0; i < package.header().cut_count; ++i) {
    const Cut& cut = package.cuts()[i];
    if (cut.delegate >= method.delegate_count()) {
      fail(ErrorKind::PACKAGE,
           Text() << "cut " << i << " is in delegate " << cut.delegate << " of " << method.delegate_count());
    }
    const std::uint32_t size = method.delegate(cut.delegate).stream_size();
    if (cut.offset % sizeof(std::uint32_t) != 0 || cut.offset >= size) {
      fail(ErrorKind::PACKAGE,
           Text() << "cut " << i << " is at byte " << cut.offset << " of a command stream of " << size << " bytes");
    }
  }
}

// Refuses, before the first run, outputs that no frame can carry.
void check_outputs(Method& method) {
  for (std::uint32_t i = 0; i < method.output_count(); ++i) {
    switch (method.output(i).kind) {
      case ValueKind::TENSOR:
      case ValueKind::INT:
      case ValueKind::BOOL:
      case ValueKind::DOUBLE:
        break;
      default:
        fail(ErrorKind::UNSUPPORTED, Text() << "output " << i << " is neither a tensor nor a number");
    }
  }
}

void send_outputs(Method& method) {
  for (std::uint32_t i = 0; i < method.output_count(); ++i) {
    Tensor tensor{};
    if (!as_tensor(method.output(i), tensor)) {
      fail(ErrorKind::PROGRAM, Text() << "output " << i << " is not a tensor with memory");
    }
    send_output(i, tensor);
  }
}

// False when a test case of a bundle expects other outputs.
bool run_once(const Package& package, const TestCases& cases, Method& method, std::uint32_t input_set,
              std::uint32_t repeat) {
  const PackageHeader& plan = package.header();
  const RunBegin begin{input_set, repeat};
  frames::send(FrameType::RUN_BEGIN, &begin, sizeof begin);
  method.reset_values();
  if (cases) cases.set_inputs(input_set, method);
  for (std::uint32_t i = 0; i < plan.inputs_per_set; ++i) {
    const Bytes input = package.input(input_set, i);
    const Value& value = method.input(i);
    if (value.kind == ValueKind::TENSOR && input.size != 0) std::memcpy(value.tensor.data, input.data, input.size);
  }
  const bool send_delegate_outputs = (plan.flags & static_cast<std::uint32_t>(PackageFlag::SEND_DELEGATE_OUTPUTS)) != 0;
  if (plan.event_set_count > 1 && method.delegate_count() != 0) npu::select_events(package.events(repeat));
  execute(method, {plan.npu_timeout_ms, send_delegate_outputs, package.cuts(), plan.cut_count, send_counters});
  send_outputs(method);
  const bool passed = !cases || cases.judge(input_set, method);
  const RunEnd end{input_set, repeat, board::stack_used()};
  frames::send(FrameType::RUN_END, &end, sizeof end);
  count_run();
  return passed;
}

}  // namespace

int main() {
  board::initialise();
  Text problem;
  const bool has_memories = check_memories(problem);
  const bool has_monitor = has_memories && monitor::is_requested();
  if (has_monitor) {
    monitor::serve();
    finish_with(board::restart);
  }
  const bool has_package = has_memories && Package::is_present(board::package_window());
  // Not where a debugger may be: it would take the call for a breakpoint, and stop the core.
  if (!has_package && !has_monitor && runner::requested()) runner::run(problem);
  if (!has_memories) {
    frames::begin(false);
    send_hello(nullptr);
    fail(ErrorKind::MEMORY, problem);
  }
  const bool is_printable = Package::is_for_printable_link(board::package_window());
  const Package package(board::package_window());
  if (package.problem().empty() && !has_monitor) {
    board::set_clocks({package.header().cpu_hz, package.header().peripheral_hz, package.header().baud});
  }
  frames::begin(is_printable);
  send_hello(&package);
  if (!package.problem().empty()) fail(ErrorKind::PACKAGE, package.problem());

  const PackageHeader& plan = package.header();
  if (!has_monitor && (plan.flags & static_cast<std::uint32_t>(PackageFlag::STAY)) != 0) {
    monitor::request({plan.cpu_hz, plan.peripheral_hz, plan.baud});
    finish_with(board::restart);
  }
  Memory memory(board::sram_pool(), board::ddr_pool(package.end()));
  const Bytes file = package.program();
  const char* name = reinterpret_cast<const char*>(plan.method);
  Bytes pte = file;
  TestCases cases;
  if (Bundle::is_bundle(file)) {
    const Bundle bundle(file);
    pte = bundle.program();
    // A plan without inputs runs the bundle's own test cases; a plan with inputs runs those.
    if (plan.inputs_per_set == 0) cases = bundle.test_cases(name);
  }
  NamedData beside;
  for (std::uint32_t i = 0; i < plan.data_count; ++i) beside.add(package.data(i));
  const Program program(pte, beside);
  const NpuMemory npu_memory{static_cast<DeviceMemoryMode>(plan.memory_mode), plan.fast_scratch_size};
  Method method(program, name, memory, npu_memory);
  if (cases) {
    check_cases(cases, plan, method);
  } else {
    check_inputs(package, method);
  }
  check_outputs(method);
  check_cuts(package, method);
  if (method.delegate_count() != 0) npu::initialise(package.events(0), npu_memory.mode);
  send_loaded(method, memory);
  if ((plan.flags & static_cast<std::uint32_t>(PackageFlag::TIME_STEPS)) != 0) step_clock::enable();

  std::uint32_t failed = 0;
  for (std::uint32_t input_set = 0; input_set < plan.input_set_count; ++input_set) {
    for (std::uint32_t repeat = 0; repeat < plan.repeat; ++repeat) {
      if (!run_once(package, cases, method, input_set, repeat)) ++failed;
    }
  }
  if (failed != 0) fail_cases(failed, plan.input_set_count * plan.repeat);
  finish(0);
}
