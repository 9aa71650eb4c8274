// Any bytes as a .pte: it is opened, its method is loaded, and executed if it can be. Inputs are noise, every byte of
// which has to be survived too: a package may hold anything.
#include "runtime/program.h"

#include "fuzz/boot.h"
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

void run(const std::uint8_t* data, std::size_t size) {
  const Program program({fuzz::copy(data, size), static_cast<std::uint32_t>(size)});
  Memory memory(fuzz::sram(), fuzz::ddr());
  constexpr MemoryMode MODES[] = {MemoryMode::SHARED_SRAM, MemoryMode::SRAM_ONLY, MemoryMode::DEDICATED_SRAM};
  Method method(program, "forward", memory, {MODES[size % 3], 1024});
  ExecuteOptions options{};
  options.max_steps = 200;
  options.send_delegate_outputs = true;
  options.count = send_counters;
  std::uint32_t state = static_cast<std::uint32_t>(size) | 1;
  for (int execution = 0; execution < 2; ++execution) {
    method.reset_values();
    for (std::uint32_t i = 0; i < method.input_count(); ++i) {
      if (method.input(i).kind != ValueKind::TENSOR) continue;
      const Tensor& input = method.input(i).tensor;
      for (std::uint32_t at = 0; at < input.nbytes; ++at) input.data[at] = static_cast<std::uint8_t>(noise(state));
    }
    execute(method, options);
    for (std::uint32_t i = 0; i < method.output_count(); ++i) {
      const Value& value = method.output(i);
      if (value.kind == ValueKind::TENSOR && value.tensor.data != nullptr) {
        send_tensor(TensorRole::OUTPUT, i, 0, value.tensor);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::boot(run, data, size);
  return 0;
}
