// Tests the monitor's receiver, twice for each input. First the input is the bytes on the line: whatever they are, no
// more counts as received than the window and the upload have. Then the input decides how a package is sent, and how it
// is damaged on the way: what counts as received must be the first part of the package, and nothing else in memory
// may change.
//
// As in frames.cc, sent bytes and damage are pseudo-random, because a fuzzer that watches comparisons would soon forge
// a CRC-32, which protects against accidents only.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "link/cobs.h"
#include "link/crc32.h"
#include "monitor/receiver.h"

namespace {

using namespace ethos_hil;
using monitor::Event;
using monitor::Receiver;

using Octets = std::vector<std::uint8_t>;

constexpr std::uint32_t WINDOW = 8192;
constexpr std::uint8_t UNTOUCHED = 0x5A;

[[noreturn]] void violated(const char* property) {
  std::fprintf(stderr, "PROPERTY VIOLATED: %s\n", property);
  std::abort();
}

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

 private:
  std::uint32_t state_;
};

// The input, byte by byte, and zeros after its end.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool has_more() const { return at_ < size_; }
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

Octets frame(HostFrameType type, std::uint32_t upload, std::uint32_t offset, const std::uint8_t* payload,
             std::uint32_t size) {
  HostHeader header{};
  header.type = static_cast<std::uint8_t>(type);
  header.upload = upload;
  header.offset = offset;
  header.size = size;
  header.crc32 = crc32(&header, offsetof(HostHeader, crc32));
  Octets content(sizeof header + size + sizeof(std::uint32_t));
  std::memcpy(content.data(), &header, sizeof header);
  if (size != 0) std::memcpy(content.data() + sizeof header, payload, size);
  const std::uint32_t crc = crc32(payload, size);
  std::memcpy(content.data() + sizeof header + size, &crc, sizeof crc);
  Octets line(cobs_bound(content.size()));
  line.resize(cobs_encode(content.data(), content.size(), line.data()));
  line.push_back(0);
  return line;
}

void check_any_bytes(const std::uint8_t* data, std::size_t size) {
  Octets memory(WINDOW);
  Receiver receiver({memory.data(), WINDOW});
  if (size != 0 && !receiver.begin(7, data[0] * 32u)) violated("an upload that fits is refused");
  for (std::size_t i = 0; i < size; ++i) {
    const Event event = receiver.take(data[i]);
    if (event == Event::COMMAND && receiver.command().size > MAX_COMMAND) violated("a command is too long");
    if (receiver.received() > receiver.size()) violated("more was received than the upload has");
  }
}

void damage(Octets& line, Script& script) {
  if (line.empty()) return;
  const std::uint32_t kind = script.byte() % 6;
  const std::size_t at = script.word() % line.size();
  Noise noise(script.word());
  const auto place = line.begin() + static_cast<std::ptrdiff_t>(at);
  switch (kind) {
    case 0:
      *place = static_cast<std::uint8_t>(*place ^ 1u << noise.below(8));
      break;
    case 1:
      line.erase(place);
      break;
    case 2:
      line.insert(place, static_cast<std::uint8_t>(noise.below(256)));
      break;
    case 3: {
      const Octets again(line);
      line.insert(line.end(), again.begin(), again.end());
      break;
    }
    case 4:
      line.resize(at);
      break;
    default:
      break;
  }
}

void check_upload(const std::uint8_t* data, std::size_t size) {
  Script script(data, size);
  Octets package(1 + script.word() % (WINDOW - 1));
  Noise content(script.word());
  for (std::uint8_t& byte : package) byte = static_cast<std::uint8_t>(content.below(script.byte() % 2 == 0 ? 256 : 2));
  Octets memory(WINDOW, UNTOUCHED);
  Receiver receiver({memory.data(), WINDOW});
  constexpr std::uint32_t UPLOAD = 0x1234;
  const auto total = static_cast<std::uint32_t>(package.size());
  if (!receiver.begin(UPLOAD, total)) violated("an upload that fits is refused");
  while (script.has_more()) {
    const std::uint32_t control = script.byte();
    // Mostly what the receiver waits for, sometimes what it has already or not yet, or of another upload.
    std::uint32_t offset = receiver.received();
    if (control % 8 == 1) offset = script.word() % (total + 1);
    if (control % 16 == 2 && !receiver.begin(UPLOAD, total)) violated("the same upload is refused");
    const std::uint32_t most = total - offset < MAX_CHUNK ? total - offset : MAX_CHUNK;
    const std::uint32_t count = control % 4 == 0 ? most : script.word() % (most + 1);
    const std::uint32_t upload = control % 32 == 3 ? UPLOAD + 1 : UPLOAD;
    Octets line = frame(HostFrameType::CHUNK, upload, offset, package.data() + offset, count);
    const std::uint32_t before = receiver.received();
    const bool is_damaged = control >= 160;
    if (is_damaged) damage(line, script);
    for (const std::uint8_t byte : line) receiver.take(byte);
    const bool is_next = upload == UPLOAD && offset == before;
    if (!is_damaged && receiver.received() != before + (is_next ? count : 0)) {
      // What a cut frame left before it may have taken this one along.
      receiver.take(0);
      if (receiver.received() > before + count) violated("a chunk counts that is not the next one");
    }
    if (std::memcmp(memory.data(), package.data(), receiver.received()) != 0) violated("other bytes were received");
    for (std::uint32_t i = total; i < WINDOW; ++i) {
      if (memory[i] != UNTOUCHED) violated("a byte behind the package changed");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_any_bytes(data, size);
  check_upload(data, size);
  return 0;
}
