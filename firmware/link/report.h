// What the firmware says about itself: log lines, errors, faults and the end. Everything that can go wrong is final:
// fail() reports it, ends the conversation with a non-zero status and parks the CPU, so no caller has to pass an error
// on and none can forget to.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "link/text.h"

namespace ethos_hil {

enum class LogLevel : std::uint32_t { DEBUG = 0, INFO = 1, ERROR = 2 };

// Where reports go: frames over the UART unless report_to() says otherwise.
struct Sink {
  void (*log)(LogLevel level, const Text& text);
  void (*error)(ErrorKind kind, const Text& text, std::uint32_t needed, std::uint32_t available);
  void (*fault)(const FaultInfo& info);
  // The CPU is parked if this returns.
  void (*end)(std::uint32_t status, std::uint32_t runs);
};
void report_to(const Sink& sink);

void log(LogLevel level, const Text& text);

// An error that is not yet the end; `needed` and `available` as formats.h defines them for `kind`. Only for what takes
// several frames.
void report_error(ErrorKind kind, const Text& text, std::uint32_t needed = 0, std::uint32_t available = 0);

// The same, then finish(1).
[[noreturn]] void fail(ErrorKind kind, const Text& text, std::uint32_t needed = 0, std::uint32_t available = 0);

// A fault, then finish(1).
[[noreturn]] void report_fault(const FaultInfo& info);

// Counts an execution as finished.
void count_run();

// The end with `status`; then the CPU sleeps for ever.
[[noreturn]] void finish(std::uint32_t status);

}  // namespace ethos_hil
