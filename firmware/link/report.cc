#include "link/report.h"

#include "boards/board.h"
#include "link/frames.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t STATUS_FAILED = 1;
std::uint32_t runs_finished;

static_assert(Text::CAPACITY + sizeof(Error) <= MAX_FRAME_PAYLOAD, "a text must fit one frame");

void send_log(LogLevel level, const Text& text) {
  const Log head{static_cast<std::uint32_t>(level)};
  frames::send(FrameType::LOG, &head, sizeof head, text.data(), text.size());
}

void send_error(ErrorKind kind, const Text& text, std::uint32_t needed, std::uint32_t available) {
  const Error head{static_cast<std::uint32_t>(kind), needed, available};
  frames::send(FrameType::ERROR, &head, sizeof head, text.data(), text.size());
}

void send_fault(const FaultInfo& info) {
  frames::resume();  // the fault may have cut a frame short
  frames::send(FrameType::FAULT, &info, sizeof info);
}

void send_end(std::uint32_t status, std::uint32_t runs) {
  const End end{status, runs, frames::sent() + 1};
  frames::send(FrameType::END, &end, sizeof end);
}

constexpr Sink FRAMES{send_log, send_error, send_fault, send_end};
// Null until they are chosen, so that no variable needs an initial value.
const Sink* chosen_sink;
Ending chosen_ending;

const Sink& sink() { return chosen_sink == nullptr ? FRAMES : *chosen_sink; }

}  // namespace

void report_to(const Sink& other) { chosen_sink = &other; }

void finish_with(Ending ending) { chosen_ending = ending; }

void log(LogLevel level, const Text& text) { sink().log(level, text); }

void report_error(ErrorKind kind, const Text& text, std::uint32_t needed, std::uint32_t available) {
  sink().error(kind, text, needed, available);
}

void fail(ErrorKind kind, const Text& text, std::uint32_t needed, std::uint32_t available) {
  report_error(kind, text, needed, available);
  finish(STATUS_FAILED);
}

void report_fault(const FaultInfo& info) {
  sink().fault(info);
  finish(STATUS_FAILED);
}

void count_run() { ++runs_finished; }

void finish(std::uint32_t status) {
  sink().end(status, runs_finished);
  if (chosen_ending != nullptr) {
    while (!board::is_drained()) {
    }
    chosen_ending();
  }
  board::park();
}

}  // namespace ethos_hil
