// The receiving end of frames.h: takes bytes from a line, in pieces of any size, and returns frames. It is for tools
// and tests on a host; the firmware itself receives nothing. It agrees with harness/link/frames.py, which
// firmware/tests compares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/cobs.h"
#include "link/formats.h"

namespace ethos_hil::frames {

// The item found on the line. `data` is valid until the decoder is used again.
struct Item {
  enum class Kind {
    NOTHING,  // all bytes are taken; they complete no item
    FRAME,    // a whole frame, the one that follows the frame before it; `data` is its payload
    OTHER,    // bytes between two zeros that are not a frame: other text, or a damaged frame
    BREAK,    // a valid frame, but out of sequence or of a type that formats.h lacks; nothing comes after it
  };
  Kind kind = Kind::NOTHING;
  std::uint8_t type = 0;
  std::uint16_t sequence = 0;
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

class Decoder {
 public:
  // For a line on which `frames_before` frames have already been sent.
  explicit Decoder(std::uint32_t frames_before = 0) : frames_(frames_before) {}

  // Takes bytes from `next`, at most to `end`, until they complete an item. Call it until it returns NOTHING.
  Item take(const std::uint8_t*& next, const std::uint8_t* end);

  // Ends the line: the bytes that are left are not a frame.
  Item close();

 private:
  static constexpr std::size_t MAX_CONTENT = sizeof(FrameHeader) + MAX_FRAME_PAYLOAD + sizeof(std::uint32_t);
  // Longer text is returned in pieces; a frame is far shorter.
  static constexpr std::size_t MAX_CHUNK = 64 * 1024;

  Item end_chunk();
  Item hand_over(std::size_t size);
  bool open_frame(std::size_t start);
  Item frame();

  std::uint8_t chunk_[MAX_CHUNK];
  std::size_t chunk_size_ = 0;
  alignas(FrameHeader) std::uint8_t content_[cobs_bound(MAX_CONTENT)];
  std::size_t content_size_ = 0;
  std::uint32_t frames_;
  bool frame_waits_ = false;  // in content_, after the text that was returned
  bool broken_ = false;
};

}  // namespace ethos_hil::frames
