// Tests the line from device to host, twice for each input. First the input is the bytes on the line: the pieces they
// come in must make no difference. Then the input decides what is sent, and how it is damaged on the way: all of it
// must arrive, or the first part of it, and nothing else.
//
// The sent bytes and the damage are pseudo-random and not taken from the input, because a fuzzer that watches
// comparisons would soon forge a CRC-32, which protects against accidents only.
#include "link/frames.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "fuzz/boot.h"
#include "link/decoder.h"

namespace {

using namespace ethos_hil;

using Octets = std::vector<std::uint8_t>;

[[noreturn]] void violated(const char* property) {
  std::fprintf(stderr, "PROPERTY VIOLATED: %s\n", property);
  std::abort();
}

using Kind = frames::Item::Kind;

struct Event {
  Kind kind;
  std::uint8_t type;
  std::uint16_t sequence;
  Octets bytes;

  bool operator==(const Event& event) const {
    return kind == event.kind && type == event.type && sequence == event.sequence && bytes == event.bytes;
  }
};

// Numbers that depend only on a seed (G. Marsaglia, "Xorshift RNGs", 2003).
class Noise {
 public:
  explicit Noise(std::uint32_t seed) : state_(seed * 2654435761u | 1) {}
  std::uint32_t below(std::uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_ % limit;
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(below(256)); }

 private:
  std::uint32_t state_;
};

// The input, byte by byte, and zeros after its end.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint32_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  std::uint32_t word() {
    const std::uint32_t low = byte();
    return low | byte() << 8;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// Decodes a line in pieces of at most `piece` bytes.
std::vector<Event> decode(const Octets& line, std::uint32_t frames_before, std::size_t piece) {
  std::vector<Event> events;
  const auto keep = [&events](const frames::Item& item) {
    if (item.kind == Kind::NOTHING) return false;
    events.push_back({item.kind, item.type, item.sequence, Octets(item.data, item.data + item.size)});
    return true;
  };
  const auto decoder = std::make_unique<frames::Decoder>(frames_before);
  for (std::size_t at = 0; at < line.size(); at += piece) {
    const std::uint8_t* next = line.data() + at;
    const std::uint8_t* end = line.size() - at < piece ? line.data() + line.size() : next + piece;
    while (keep(decoder->take(next, end))) {
    }
  }
  keep(decoder->close());
  return events;
}

void check_pieces(const std::uint8_t* data, std::size_t size) {
  const Octets line(data, data + size);
  const auto whole = decode(line, 0, size + 1);
  const std::size_t uneven = 2 + (size == 0 ? 0 : data[size - 1] % 61);
  if (decode(line, 0, 1) != whole || decode(line, 0, uneven) != whole) violated("pieces make a difference");
}

Octets line_of_all;

// Sends frames as the firmware does. Returns what must arrive.
std::vector<Event> send(Script& script) {
  fuzz::listen(
      [](const std::uint8_t* bytes, std::size_t size) { line_of_all.insert(line_of_all.end(), bytes, bytes + size); });
  std::vector<Event> sent;
  line_of_all.clear();
  frames::begin(false);
  for (std::uint32_t left = 1 + script.byte() % 6; left > 0; --left) {
    const std::uint32_t control = script.byte();
    const auto type = static_cast<FrameType>(1 + control % 11);
    Octets payload(script.word() % (MAX_FRAME_PAYLOAD + 1));
    Noise noise(script.word());
    const std::uint32_t one_zero_in = 1 + script.byte() * 4;  // 1: zeros only
    for (std::uint8_t& byte : payload) {
      byte = noise.below(one_zero_in) == 0 ? 0 : static_cast<std::uint8_t>(1 + noise.below(255));
    }
    if (control >= 200) {  // a boot loader's words in front of the frame
      constexpr char TEXT[] = "booting ...\nready\n";
      line_of_all.insert(line_of_all.end(), TEXT, TEXT + sizeof TEXT - 1);
    }
    const auto sequence = static_cast<std::uint16_t>(frames::sent());
    const std::size_t head = payload.empty() ? 0 : script.byte() % (payload.size() + 1);
    frames::send(type, payload.data(), head, payload.data() + head, payload.size() - head);
    sent.push_back({Kind::FRAME, static_cast<std::uint8_t>(type), sequence, payload});
  }
  return sent;
}

// Damages the line. Returns whether it changed.
bool damage(Octets& line, Script& script) {
  const Octets before = line;
  for (std::uint32_t left = script.byte() % 4; left > 0 && !line.empty(); --left) {
    const std::uint32_t kind = script.byte() % 5;
    const std::size_t at = script.word() % line.size();
    const std::size_t count = 1 + script.byte() % 40;
    const std::size_t end = line.size() - at < count ? line.size() : at + count;
    Noise noise(script.word());
    const auto begin = line.begin() + static_cast<std::ptrdiff_t>(at);
    const auto stop = line.begin() + static_cast<std::ptrdiff_t>(end);
    switch (kind) {
      case 0:
        *begin = static_cast<std::uint8_t>(*begin ^ 1u << noise.below(8));
        break;
      case 1:
        line.erase(begin, stop);
        break;
      case 2: {
        Octets more(count);
        for (std::uint8_t& byte : more) byte = noise.byte();
        line.insert(begin, more.begin(), more.end());
        break;
      }
      case 3: {
        const Octets again(begin, stop);
        line.insert(stop, again.begin(), again.end());
        break;
      }
      default:
        line.resize(at);
        break;
    }
  }
  return line != before;
}

void check_round_trip(const std::uint8_t* data, std::size_t size) {
  Script script(data, size);
  const std::uint32_t frames_before = frames::sent();
  const std::vector<Event> sent = send(script);
  Octets line = line_of_all;
  const bool damaged = damage(line, script);
  std::vector<Event> arrived;
  bool broken = false;
  for (Event& event : decode(line, frames_before, 1 + script.byte())) {
    if (event.kind == Kind::FRAME) arrived.push_back(event);
    broken = broken || event.kind == Kind::BREAK;
  }
  if (arrived.size() > sent.size()) violated("more frames arrived than were sent");
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!(arrived[i] == sent[i])) violated("a frame arrived that was not sent");
  }
  if (!damaged && (broken || arrived.size() != sent.size())) violated("a frame did not arrive");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_pieces(data, size);
  check_round_trip(data, size);
  fuzz::listen(nullptr);
  return 0;
}
