// Takes any bytes as a .pte, or as a .bpte with a .pte in it: opens it, loads its method, and executes it if possible.
// Inputs are noise, and the firmware must survive every byte of it: a package may contain anything.
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
      send_output(i, value.tensor);
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
  constexpr DeviceMemoryMode MODES[] = {DeviceMemoryMode::SHARED_SRAM, DeviceMemoryMode::SRAM_ONLY,
                                        DeviceMemoryMode::DEDICATED_SRAM};
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

constexpr std::int64_t NUMBERS[] = {0,   1,     2,     3,          4,         5,         6,        7,
                                    8,   16,    32,    127,        -1,        -2,        128,      255,
                                    256, 32767, 65535, 2147483647, INT32_MIN, INT64_MAX, INT64_MIN};

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// A flatbuffer's numbers are aligned, and most changes to its other bytes make it invalid. So half of the changes are
// to a single number.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::uint32_t state = seed | 1;
  if (noise(state) % 2 == 0 || size < 16) return LLVMFuzzerMutate(data, size, max_size);
  for (std::uint32_t left = 1 + noise(state) % 3; left > 0; --left) {
    const std::size_t width = std::size_t{1} << noise(state) % 4;
    std::uint8_t* at = data + noise(state) % (size / width) * width;
    std::int64_t number = NUMBERS[noise(state) % (sizeof NUMBERS / sizeof *NUMBERS)];
    if (noise(state) % 2 == 0) {
      std::int64_t old = 0;
      __builtin_memcpy(&old, at, width);
      number = static_cast<std::int64_t>(static_cast<std::uint64_t>(old) + noise(state) % 9 - 4);
    }
    __builtin_memcpy(at, &number, width);
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::boot(run, data, size);
  return 0;
}
