// The runner's command line: executor_runner -m program.pte -i first.bin -i second.bin -o base --server_mode true
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::runner {

struct CommandLine {
  static constexpr std::uint32_t MAX_INPUTS = 64;

  // Splits `line` in place; it must outlive this object. Words are separated by blanks, and may be quoted. Ends the
  // program with status 1 when -m or -o is missing or a word is not understood.
  explicit CommandLine(char* line);

  const char* program = nullptr;
  const char* output_base = nullptr;
  std::uint32_t input_count = 0;
  const char* inputs[MAX_INPUTS];
  bool server_mode = false;
};

// Whether `line` has words after the program's name.
bool has_arguments(const char* line);

}  // namespace ethos_hil::runner
