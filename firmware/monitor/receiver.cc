#include "monitor/receiver.h"

#include <cstring>

#include "link/crc32.h"

namespace ethos_hil::monitor {

namespace {

constexpr std::uint32_t CRC_SIZE = sizeof(std::uint32_t);
constexpr std::uint8_t FULL_GROUP = 0xFF;

}  // namespace

Event Receiver::take(std::uint8_t byte) {
  if (byte == 0) return end();
  if (group_left_ == 0) {
    if (zero_follows_) decoded(0);
    zero_follows_ = byte != FULL_GROUP;
    group_left_ = byte - 1u;
  } else {
    --group_left_;
    decoded(byte);
  }
  return Event::NOTHING;
}

void Receiver::decoded(std::uint8_t byte) {
  const std::uint32_t at = count_++;
  if (at < sizeof header_) {
    header_[at] = byte;
    if (at == sizeof header_ - 1) open();
    return;
  }
  if (!is_open_) return;
  const std::uint32_t offset = at - sizeof header_;
  if (offset < payload_size_) {
    if (to_ != nullptr) to_[offset] = byte;
    crc_ = crc32(&byte, 1, crc_);
  } else if (offset < payload_size_ + CRC_SIZE) {
    stated_crc_ |= std::uint32_t{byte} << 8 * (offset - payload_size_);
  }
}

// The header is there. It decides where the payload goes, so it has a checksum of its own.
void Receiver::open() {
  const auto& header = *reinterpret_cast<const HostHeader*>(header_);
  if (crc32(header_, offsetof(HostHeader, crc32)) != header.crc32) return;
  is_chunk_ = header.type == static_cast<std::uint8_t>(HostFrameType::CHUNK);
  if (header.size > (is_chunk_ ? MAX_CHUNK : MAX_COMMAND)) return;
  is_open_ = true;
  payload_size_ = header.size;
  crc_ = 0;
  stated_crc_ = 0;
  if (is_chunk_) {
    const bool is_next = header.upload == upload_ && header.offset == received_ && header.size <= size_ - received_;
    to_ = is_next ? window_.begin + received_ : nullptr;
  } else {
    command_.type = static_cast<HostFrameType>(header.type);
    command_.upload = header.upload;
    command_.size = header.size;
    to_ = command_.payload;
  }
}

// A frame ends here, or nothing does: the delimiter may stand twice.
Event Receiver::end() {
  const bool is_whole = group_left_ == 0 && is_open_ && count_ == sizeof header_ + payload_size_ + CRC_SIZE;
  const bool is_empty = count_ == 0 && group_left_ == 0;
  const bool is_good = is_whole && crc_ == stated_crc_;
  const bool is_stored = to_ != nullptr;
  group_left_ = 0;
  zero_follows_ = false;
  count_ = 0;
  is_open_ = false;
  to_ = nullptr;
  if (is_empty) return Event::NOTHING;
  if (!is_good) {
    ++damaged_;
    return Event::DAMAGED;
  }
  if (!is_chunk_) return Event::COMMAND;
  if (is_stored) received_ += payload_size_;
  return Event::CHUNK;
}

bool Receiver::begin(std::uint32_t upload, std::uint32_t size) {
  // The frame that starts an upload may come twice, the second time after chunks.
  if (upload == upload_ && size == size_) return true;
  upload_ = 0;
  size_ = 0;
  received_ = 0;
  if (upload == 0 || size > window_.size) return false;
  upload_ = upload;
  size_ = size;
  return true;
}

}  // namespace ethos_hil::monitor
