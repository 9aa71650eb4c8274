#include "runner/console.h"

#include <cstring>

#include "runner/semihosting.h"

namespace ethos_hil::runner {

namespace {

constexpr char RUNNER[] = "arm_executor_runner";
constexpr std::uint32_t STATUS_FAILED = 1;

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::PACKAGE:
      return "package";
    case ErrorKind::PROGRAM:
      return "program";
    case ErrorKind::UNSUPPORTED:
      return "unsupported";
    case ErrorKind::OUT_OF_MEMORY:
      return "out_of_memory";
    case ErrorKind::INPUT:
      return "input";
    case ErrorKind::NPU_MISMATCH:
      return "npu_mismatch";
    case ErrorKind::NPU_FAULT:
      return "npu_fault";
    case ErrorKind::NPU_TIMEOUT:
      return "npu_timeout";
    case ErrorKind::KERNEL:
      return "kernel";
    case ErrorKind::MISMATCH:
      return "mismatch";
    case ErrorKind::MEMORY:
      return "memory";
  }
  return "error";
}

char level_letter(LogLevel level) {
  switch (level) {
    case LogLevel::DEBUG:
      return 'D';
    case LogLevel::INFO:
      return 'I';
    default:
      return 'E';
  }
}

// The whole line goes out in one piece.
class Line {
 public:
  void append(const void* text, std::size_t size) {
    const std::size_t room = sizeof characters_ - size_;
    const std::size_t taken = size < room ? size : room;
    std::memcpy(characters_ + size_, text, taken);
    size_ += taken;
  }
  void append(const char* text) { append(text, std::strlen(text)); }

  void send() {
    append("\n");
    if (!is_open_) {
      console_ = semihosting::open(semihosting::CONSOLE, semihosting::Mode::WRITE_TEXT);
      is_open_ = true;
    }
    semihosting::write(console_, characters_, size_);
    size_ = 0;
  }

 private:
  static constexpr std::size_t MAX_HEAD = 64;

  char characters_[MAX_HEAD + Text::CAPACITY] = {};
  std::size_t size_ = 0;
  bool is_open_ = false;
  semihosting::Handle console_ = 0;
};

Line line;

void write_line(LogLevel level, const char* where, const Text& text) {
  const char letter = level_letter(level);
  line.append(&letter, 1);
  line.append(" [executorch:");
  line.append(where);
  line.append("] ");
  line.append(text.data(), text.size());
  line.send();
}

void write_log(LogLevel level, const Text& text) { write_line(level, RUNNER, text); }

void write_error(ErrorKind kind, const Text& text, std::uint32_t, std::uint32_t) {
  write_line(LogLevel::ERROR, kind_name(kind), text);
}

void write_fault(const FaultInfo& info) {
  write_line(LogLevel::ERROR, "fault",
             Text() << "Hard fault. irq=" << info.exception << ", pc=" << Hex{info.pc} << ", lr=" << Hex{info.lr}
                    << ", xpsr=" << Hex{info.xpsr} << ", cfsr=" << Hex{info.cfsr} << ", hfsr=" << Hex{info.hfsr}
                    << ", mmfar=" << Hex{info.mmfar} << ", bfar=" << Hex{info.bfar} << ", sfsr=" << Hex{info.sfsr});
}

void end(std::uint32_t status, std::uint32_t) { semihosting::exit(status); }

}  // namespace

const Sink CONSOLE{write_log, write_error, write_fault, end};

void say(const Text& text) { write_log(LogLevel::INFO, text); }

void say_plain(const Text& text) {
  line.append(text.data(), text.size());
  line.send();
}

void reject(const Text& text) {
  write_log(LogLevel::ERROR, text);
  finish(STATUS_FAILED);
}

}  // namespace ethos_hil::runner
