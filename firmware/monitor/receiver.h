// The receiving end of the line from the host. It takes one byte at a time, and does little with each: a UART may hold
// only one, and the next one comes 11 microseconds later at 921,600 baud. So the bytes of a chunk go straight to their
// place in the window, and a checksum is computed as they come. It knows no device, so that a fuzzer can drive it.
//
// harness/image/formats.py describes the frames (HostHeader). What arrives damaged, twice or late changes nothing: a
// chunk is stored only where the bytes before it have all arrived, and only then counts when its checksum is right.
#pragma once

#include <cstddef>
#include <cstdint>

#include "boards/board.h"
#include "link/formats.h"

namespace ethos_hil::monitor {

enum class Event {
  NOTHING,  // no frame is complete
  COMMAND,  // command() is one, and no chunk
  CHUNK,    // a chunk was stored, or came again or too early: received() says how far the package is there
  DAMAGED,  // a frame whose checksum is wrong, or whose size is
};

struct Command {
  HostFrameType type;
  std::uint32_t upload;
  std::uint32_t size;
  std::uint8_t payload[MAX_COMMAND];
};

class Receiver {
 public:
  explicit Receiver(board::Pool window) : window_(window) {}

  Event take(std::uint8_t byte);

  // The last command, until the next byte is taken.
  const Command& command() const { return command_; }

  // Starts to receive a package. From now on, chunks of other uploads are not stored. False when the window is too
  // small.
  bool begin(std::uint32_t upload, std::uint32_t size);

  std::uint32_t upload() const { return upload_; }
  std::uint32_t size() const { return size_; }
  // Bytes that have arrived, from the start of the window.
  std::uint32_t received() const { return received_; }
  // Frames that arrived damaged, since the start.
  std::uint32_t damaged() const { return damaged_; }

 private:
  void decoded(std::uint8_t byte);
  void open();
  Event end();

  board::Pool window_;
  // Of COBS: bytes until the next length, and whether a zero stands behind the group.
  std::uint32_t group_left_ = 0;
  bool zero_follows_ = false;
  // Of the frame: decoded bytes, and where those of the payload go (null: nowhere).
  std::uint32_t count_ = 0;
  alignas(HostHeader) std::uint8_t header_[sizeof(HostHeader)];
  bool is_open_ = false;
  bool is_chunk_ = false;
  std::uint8_t* to_ = nullptr;
  std::uint32_t payload_size_ = 0;
  std::uint32_t crc_ = 0;
  std::uint32_t stated_crc_ = 0;
  Command command_{};
  std::uint32_t upload_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t received_ = 0;
  std::uint32_t damaged_ = 0;
};

}  // namespace ethos_hil::monitor
