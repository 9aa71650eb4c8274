// Any bytes as a .pte, or as a .bpte with a .pte in it: it is opened, its method is loaded, and executed if it can be.
// Inputs are noise, every byte of which has to be survived too: a package may hold anything.
#include "runtime/program.h"

#include "fuzz/boot.h"
#include "runtime/bundle.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/method.h"
#include "runtime/results.h"

namespace {

using namespace ethos_hil;

std::uint32_t noise(std::uint32_t& state) {  // xorshift32 (G. Marsaglia, "Xorshift RNGs", 2003)
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

void set_inputs(const Method& method, std::uint32_t& state) {
  for (std::uint32_t i = 0; i < method.input_count(); ++i) {
    if (method.input(i).kind != ValueKind::TENSOR) continue;
    const Tensor& input = method.input(i).tensor;
    for (std::uint32_t at = 0; at < input.nbytes; ++at) input.data[at] = static_cast<std::uint8_t>(noise(state));
  }
}

void send_outputs(Method& method) {
  for (std::uint32_t i = 0; i < method.output_count(); ++i) {
    const Value& value = method.output(i);
    if (value.kind == ValueKind::TENSOR && value.tensor.data != nullptr) {
      send_tensor(TensorRole::OUTPUT, i, 0, value.tensor);
    }
  }
}

void run(const std::uint8_t* data, std::size_t size) {
  const Bytes file{fuzz::copy(data, size), static_cast<std::uint32_t>(size)};
  Bytes pte = file;
  TestCases cases;
  if (Bundle::is_bundle(file)) {
    const Bundle bundle(file);
    pte = bundle.program();
    cases = bundle.test_cases("forward");
  }
  const Program program(pte);
  Memory memory(fuzz::sram(), fuzz::ddr());
  constexpr MemoryMode MODES[] = {MemoryMode::SHARED_SRAM, MemoryMode::SRAM_ONLY, MemoryMode::DEDICATED_SRAM};
  Method method(program, "forward", memory, {MODES[size % 3], 1024});
  ExecuteOptions options{};
  options.max_steps = 200;
  options.send_delegate_outputs = true;
  options.count = send_counters;
  if (cases) cases.check_inputs(method);
  std::uint32_t state = static_cast<std::uint32_t>(size) | 1;
  for (std::uint32_t execution = 0; execution < 2; ++execution) {
    method.reset_values();
    if (cases && execution < cases.count()) {
      cases.set_inputs(execution, method);
    } else {
      set_inputs(method, state);
    }
    execute(method, options);
    send_outputs(method);
    if (cases && execution < cases.count()) cases.judge(execution, method);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::boot(run, data, size);
  return 0;
}
