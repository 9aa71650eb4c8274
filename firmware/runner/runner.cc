#include "runner/runner.h"

#include <cstring>

#include "boards/board.h"
#include "npu/driver.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/semihosting.h"
#include "runtime/bundle.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/method.h"

namespace ethos_hil::runner {

namespace {

using semihosting::Handle;
using semihosting::Mode;

// Arm's models cut a command line off after 256 characters; other hosts may allow more.
constexpr std::size_t COMMAND_LINE_SIZE = 1024;
char command_line[COMMAND_LINE_SIZE];

constexpr std::size_t MAX_FILE_NAME = 256;

// Characters of standard input that ask for one job: a line, or as much of a longer one as ExecuTorch's runner reads at
// once (`char line[16]`).
constexpr std::uint32_t MAX_REQUEST = 15;

// The host bounds the time of a run (--timelimit); this only makes a stuck NPU end with an error instead of an empty
// log.
constexpr std::uint32_t NPU_TIMEOUT_MS = 600'000;

// The caches of Vela's modes Dedicated_Sram_512KB, which ExecuTorch's examples of language models for an Ethos-U85
// have, and Dedicated_Sram_384KB, which it compiles with for an Ethos-U65 by default.
constexpr std::uint32_t FAST_SCRATCH = 512 << 10;
constexpr std::uint32_t SMALLER_FAST_SCRATCH = 384 << 10;

// The events that examples/arm/executor_runner/arm_perf_monitor.cpp counts, in its order (numbers: Arm's core driver,
// ethosu_pmu.h).
struct NamedEvents {
  std::uint32_t count;
  EventSet set;
  const char* names;
};
constexpr NamedEvents U55_EVENTS{4,
                                 {{130, 386, 135, 32}},
                                 "ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED, ETHOSU_PMU_AXI1_RD_DATA_BEAT_RECEIVED, "
                                 "ETHOSU_PMU_AXI0_WR_DATA_BEAT_WRITTEN, ETHOSU_PMU_NPU_IDLE"};
constexpr NamedEvents U85_EVENTS{7,
                                 {{130, 135, 386, 391, 32, 48, 80}},
                                 "ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED, ETHOSU_PMU_SRAM_WR_DATA_BEAT_WRITTEN, "
                                 "ETHOSU_PMU_EXT_RD_DATA_BEAT_RECEIVED, ETHOSU_PMU_EXT_WR_DATA_BEAT_WRITTEN, "
                                 "ETHOSU_PMU_NPU_IDLE, ETHOSU_PMU_MAC_ACTIVE, ETHOSU_PMU_WD_ACTIVE"};
const NamedEvents& events_of_npu() {
  const npu::Family* family = npu::identify().family();
  return family != nullptr && family->counters >= U85_EVENTS.count ? U85_EVENTS : U55_EVENTS;
}

// Sums over all delegate calls.
struct Totals {
  std::uint32_t calls;
  std::uint64_t cycles;
  std::uint64_t events[EVENT_COUNTERS];
  std::uint32_t overflows;  // bit i: counter i wrapped in a job, so its sum is too small
};
Totals totals;

void add_to_totals(std::uint32_t, std::uint32_t, const npu::JobCounters& counters) {
  ++totals.calls;
  totals.cycles += counters.cycles;
  for (std::uint32_t i = 0; i < EVENT_COUNTERS; ++i) totals.events[i] += counters.events[i];
  totals.overflows |= counters.overflows;
}

Characters shown(const char* name) { return {name, std::strlen(name)}; }

// A file of the host, open for reading.
class InputFile {
 public:
  explicit InputFile(const char* name) : name_(name), handle_(semihosting::open(name, Mode::READ)) {
    if (handle_ == semihosting::INVALID) {
      reject(Text() << "cannot open " << shown(name) << " (errno " << semihosting::error() << ")");
    }
    const std::int32_t length = semihosting::length(handle_);
    if (length < 0) reject(Text() << "cannot tell the length of " << shown(name));
    size_ = static_cast<std::uint32_t>(length);
  }

  std::uint32_t size() const { return size_; }

  // Reads the whole file and closes it.
  void read(void* data) {
    if (!semihosting::read(handle_, data, size_))
      reject(Text() << "cannot read all " << size_ << " bytes of " << shown(name_));
    close();
  }

  void close() { semihosting::close(handle_); }

 private:
  const char* name_;
  Handle handle_;
  std::uint32_t size_ = 0;
};

Bytes load(const char* name, Memory& memory) {
  InputFile file(name);
  std::uint8_t* data = memory.allocate(file.size(), "program", Place::DDR);
  file.read(data);
  return {data, file.size()};
}

void read_inputs(const CommandLine& arguments, const Method& method) {
  if (arguments.input_count != method.input_count()) {
    reject(Text() << "wrong number of inputs: the method takes " << method.input_count() << ", "
                  << arguments.input_count << " were given with -i");
  }
  for (std::uint32_t i = 0; i < arguments.input_count; ++i) {
    const char* name = arguments.inputs[i];
    InputFile file(name);
    const Value& value = method.input(i);
    if (value.kind != ValueKind::TENSOR) {
      // The program has the value it was exported with; the file only keeps the numbering.
      file.close();
      continue;
    }
    const Tensor& tensor = value.tensor;
    if (file.size() != tensor.nbytes) {
      reject(Text() << "input size (" << file.size() << ") and tensor size (" << tensor.nbytes
                    << ") mismatch: " << shown(name) << " is input " << i << ", " << tensor.elements << " elements of "
                    << type_name(tensor.type));
    }
    file.read(tensor.data);
  }
}

// "<base>-<index>.bin"
void write_output(const char* base, std::uint32_t index, const Tensor& tensor) {
  char name[MAX_FILE_NAME];
  Text text;
  text << base << "-" << index << ".bin";
  if (text.size() >= sizeof name)
    reject(Text() << "output file name is longer than " << sizeof name - 1 << " characters");
  std::memcpy(name, text.data(), text.size());
  name[text.size()] = '\0';

  say(Text() << "Writing output to file: " << shown(name));
  const Handle file = semihosting::open(name, Mode::WRITE);
  if (file == semihosting::INVALID) {
    reject(Text() << "cannot open output file " << shown(name) << " (errno " << semihosting::error() << ")");
  }
  if (!semihosting::write(file, tensor.data, tensor.nbytes)) {
    reject(Text() << "cannot write all " << tensor.nbytes << " bytes of " << shown(name));
  }
  semihosting::close(file);
}

void write_outputs(const char* base, Method& method) {
  say(Text() << method.output_count() << " outputs:");
  for (std::uint32_t i = 0; i < method.output_count(); ++i) {
    const Value& value = method.output(i);
    if (value.kind != ValueKind::TENSOR) {
      say_plain(Text() << "Output[" << i << "]: Not Tensor");
    } else if (value.tensor.data == nullptr) {
      reject(Text() << "output " << i << " is a tensor without memory");
    } else {
      write_output(base, i, value.tensor);
    }
  }
}

// "<number> (<number / inferences> per inference)"
void append_share(Text& text, std::uint64_t number, std::uint32_t inferences) {
  const std::uint64_t hundredths = number * 100 / inferences;
  text << number << " (" << hundredths / 100 << "." << hundredths / 10 % 10 << hundredths % 10 << " per inference)";
}

void report_counters(std::uint32_t inferences) {
  const NamedEvents& events = events_of_npu();
  const auto line = [inferences](Text& text, std::uint64_t number) {
    append_share(text, number, inferences);
    say(text);
  };
  say(Text() << "NPU Inferences : " << inferences);
  line(Text() << "NPU delegations: ", totals.calls);
  say(Text() << "Ethos-U PMU report:");
  line(Text() << "ethosu_pmu_cycle_cntr : ", totals.cycles);
  for (std::uint32_t i = 0; i < events.count; ++i) {
    line(Text() << "ethosu_pmu_cntr" << i << " : ", totals.events[i]);
  }
  say(Text() << "Ethos-U PMU Events:[" << events.names << "]");
  if (totals.overflows != 0) {
    log(LogLevel::ERROR,
        Text() << "event counters have wrapped: their sums are too small, by mask " << Hex{totals.overflows});
  }
}

void report_pool(const char* label, std::uint32_t used, std::uint32_t size) {
  say(Text() << label << used << " / " << size << " free: " << size - used
             << " ( used: " << std::uint64_t{used} * 100 / size << " % )");
}

// Prints the labels of upstream's runner for which there are figures, then this firmware's own. `file_memory` is the
// memory that the file takes.
void report_memory(Bytes pte, Bytes file, std::uint32_t file_memory, const Method& method, const Memory& memory) {
  const std::uint32_t used = memory.used() - method.npu_bytes() - file_memory;
  say(Text() << "model_pte_program_size:     " << pte.size << " bytes.");
  say(Text() << "model_pte_loaded_size:      " << file.size << " bytes.");
  report_pool("input_file_allocator_used: ", file_memory, memory.ddr_size());
  report_pool("method_allocator_used:     ", used, memory.sram_size() + memory.ddr_size());
  say(Text() << "method_allocator_planned:  " << method.planned_bytes() << " bytes");
  say(Text() << "method_allocator_loaded:   " << used - method.planned_bytes() << " bytes");
  say(Text() << "method_allocator_input:    0 bytes");
  say(Text() << "method_allocator_executor: 0 bytes");
  say(Text() << "temp_allocator:            " << method.scratch_bytes());
  say(Text() << "fast_scratch:              " << method.fast_scratch_bytes());
  report_pool("sram_pool_used:            ", memory.sram_used(), memory.sram_size());
  report_pool("ddr_pool_used:             ", memory.ddr_used(), memory.ddr_size());
  report_pool("stack_used:                ", board::stack_used(), board::stack_size());
}

void run_job(Method& method) {
  method.reset_values();
  execute(method, {NPU_TIMEOUT_MS, false, nullptr, 0, add_to_totals});
}

// Runs each of the test cases, or the inputs that were read. Returns how many test cases failed.
std::uint32_t run_all(const CommandLine& arguments, const TestCases& cases, Method& method) {
  std::uint32_t executed = 0;
  std::uint32_t failed = 0;
  do {
    if (cases) cases.set_inputs(executed, method);
    run_job(method);
    // The output files are those of the first test case, the only one that upstream's runner has.
    if (executed == 0) write_outputs(arguments.output_base, method);
    if (cases && !cases.judge(executed, method)) ++failed;
    ++executed;
  } while (cases && executed < cases.count());
  if (method.delegate_count() != 0) report_counters(executed);
  return failed;
}

// Waits for a request on standard input. False at its end. Reads byte by byte, as some hosts wait for all that is asked
// for.
bool read_request(Handle keyboard) {
  char character = '\0';
  std::uint32_t size = 0;
  while (size < MAX_REQUEST && character != '\n' && semihosting::read(keyboard, &character, 1)) ++size;
  return size != 0;
}

// Runs a job for each request, with inputs that are read again. The program's state stays.
void serve(const CommandLine& arguments, Method& method) {
  say(Text() << "Running in semihosting server mode.");
  const Handle keyboard = semihosting::open(semihosting::CONSOLE, Mode::READ_TEXT);
  if (keyboard == semihosting::INVALID) reject(Text() << "cannot read standard input");
  for (std::uint32_t job = 0; read_request(keyboard); ++job) {
    read_inputs(arguments, method);
    totals = {};
    run_job(method);
    if (method.delegate_count() != 0) report_counters(1);
    write_outputs(arguments.output_base, method);
    say(Text() << "SERVER_INFERENCE_DONE " << job);
  }
}

}  // namespace

bool requested() { return semihosting::command_line(command_line, sizeof command_line) && has_arguments(command_line); }

void run(const Text& problem) {
  report_to(CONSOLE);
  if (!problem.empty()) fail(ErrorKind::MEMORY, problem);
  say(Text() << "Running executor with parameter:");
  say(Text() << "   " << shown(command_line));
  const CommandLine arguments(command_line);

  Memory memory(board::sram_pool(), board::ddr_pool(board::package_window().begin));
  const Bytes file = load(arguments.program, memory);
  const std::uint32_t file_memory = memory.used();
  const bool is_bundle = Bundle::is_bundle(file);
  const Bytes pte = is_bundle ? Bundle(file).program() : file;
  say(Text() << "PTE Model data loaded. Size: " << pte.size << " bytes.");
  const Program program(pte);
  const char* name = program.first_plan();
  say(Text() << "Running method " << shown(name));
  const npu::Family* family = npu::identify().family();
  const bool has_cache = family == nullptr || family->dedicated;
  const NpuMemory npu_memory{DeviceMemoryMode::SHARED_SRAM, has_cache ? FAST_SCRATCH : 0,
                             has_cache ? SMALLER_FAST_SCRATCH : 0};
  Method method(program, name, memory, npu_memory);
  say(Text() << "Method '" << shown(name) << "' loaded.");
  if (is_bundle && arguments.server_mode) {
    reject(Text() << shown(arguments.program) << " is a bundle, which has inputs of its own: leave out --server_mode");
  }
  const TestCases cases = is_bundle ? Bundle(file).test_cases(name) : TestCases();
  if (cases) {
    cases.check_inputs(method);  // with a bundle, the files given with -i are ignored
  } else {
    read_inputs(arguments, method);
  }
  say(Text() << "Input prepared.");

  if (method.delegate_count() != 0) npu::initialise(events_of_npu().set, npu_memory.mode);
  std::uint32_t failed = 0;
  if (arguments.server_mode) {
    serve(arguments, method);
  } else {
    failed = run_all(arguments, cases, method);
  }
  report_memory(pte, file, file_memory, method, memory);
  if (failed != 0) fail_cases(failed, cases.count());
  say(Text() << "Program complete, exiting.");
  finish(0);
}

}  // namespace ethos_hil::runner
