#include "link/decoder.h"

#include <cstring>

#include "link/crc32.h"

namespace ethos_hil::frames {

namespace {

bool is_known(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(FrameType::HELLO) && type <= LAST_FRAME_TYPE;
}

}  // namespace

Item Decoder::take(const std::uint8_t*& next, const std::uint8_t* end) {
  if (frame_waits_) return frame();
  while (next != end && !broken_) {
    if (*next != 0 && chunk_size_ == MAX_CHUNK) return hand_over(MAX_CHUNK);
    const std::uint8_t byte = *next++;
    if (byte != 0) {
      chunk_[chunk_size_++] = byte;
    } else if (chunk_size_ != 0) {
      return end_chunk();
    }
  }
  return {};
}

Item Decoder::close() { return broken_ || chunk_size_ == 0 ? Item{} : hand_over(chunk_size_); }

Item Decoder::end_chunk() {
  // Other software may have written text directly in front of a frame.
  for (std::size_t start = 0; start < chunk_size_; ++start) {
    if ((start == 0 || chunk_[start - 1] == '\n') && open_frame(start)) {
      if (start == 0) return frame();
      frame_waits_ = true;
      return hand_over(start);
    }
  }
  return hand_over(chunk_size_);
}

Item Decoder::hand_over(std::size_t size) {
  chunk_size_ = 0;
  return {Item::Kind::OTHER, 0, 0, chunk_, size};
}

// Decodes header and payload from chunk_ into content_. False when no frame starts at `start`.
bool Decoder::open_frame(std::size_t start) {
  const std::size_t size = chunk_size_ - start;
  if (size > sizeof content_) return false;
  const std::size_t decoded = cobs_decode(chunk_ + start, size, content_);
  if (decoded == COBS_INVALID || decoded > MAX_CONTENT) return false;
  if (decoded < sizeof(FrameHeader) + sizeof(std::uint32_t)) return false;
  content_size_ = decoded - sizeof(std::uint32_t);
  std::uint32_t stated;
  std::memcpy(&stated, content_ + content_size_, sizeof stated);
  return crc32(content_, content_size_) == stated;
}

Item Decoder::frame() {
  frame_waits_ = false;
  chunk_size_ = 0;
  const auto& header = *reinterpret_cast<const FrameHeader*>(content_);
  if (header.sequence != (frames_ & 0xFFFF) || !is_known(header.type)) {
    broken_ = true;
    return {Item::Kind::BREAK, header.type, header.sequence, nullptr, 0};
  }
  ++frames_;
  return {Item::Kind::FRAME, header.type, header.sequence, content_ + sizeof header, content_size_ - sizeof header};
}

}  // namespace ethos_hil::frames
