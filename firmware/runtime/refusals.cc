#include "runtime/refusals.h"

#include "link/report.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t STATUS_FAILED = 1;
constexpr char LACKS[] = "this firmware lacks ";

}  // namespace

void Refusals::lack(const Text& what) {
  make_room(sizeof LACKS + what.size());
  if (lists_lacks_) {
    text_ << ", ";
  } else {
    text_ << (text_.empty() ? "" : "; ") << LACKS;
  }
  text_ << Characters{what.data(), what.size()};
  lists_lacks_ = true;
}

void Refusals::add(const Text& reason) {
  make_room(reason.size());
  text_ << (text_.empty() ? "" : "; ") << Characters{reason.data(), reason.size()};
  lists_lacks_ = false;
}

void Refusals::add(ErrorKind kind, const Text& reason) {
  any_ = true;
  report_error(kind, reason);
}

void Refusals::make_room(std::size_t length) {
  constexpr std::size_t SEPARATOR = 2;
  any_ = true;
  if (text_.size() + SEPARATOR + length > Text::CAPACITY) send();
}

void Refusals::send() {
  if (text_.empty()) return;
  report_error(ErrorKind::UNSUPPORTED, text_);
  text_.clear();
  lists_lacks_ = false;
}

void Refusals::conclude() {
  send();
  if (any_) finish(STATUS_FAILED);
}

}  // namespace ethos_hil
