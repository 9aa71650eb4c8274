#include "monitor/monitor.h"

#include <cstring>

#include "boards/board.h"
#include "link/cobs.h"
#include "link/crc32.h"
#include "monitor/mailbox.h"
#include "monitor/receiver.h"
#include "npu/driver.h"

namespace ethos_hil::monitor {

namespace {

// Bytes of rubbish after which the line's speed is taken for the cause.
constexpr std::uint32_t PATIENCE = 64;

// What is to be sent. Each turn of the loop hands over at most one byte, because a byte may arrive meanwhile.
class Outbox {
 public:
  // Without room for it a frame is dropped: the host asks again.
  void put(MonitorFrameType type, const void* payload, std::size_t size) {
    std::uint8_t frame[MAX_REPLY];
    const FrameHeader header{static_cast<std::uint8_t>(type), 0, sequence_++};
    std::memcpy(frame, &header, sizeof header);
    std::memcpy(frame + sizeof header, payload, size);
    std::size_t end = sizeof header + size;
    const std::uint32_t crc = crc32(frame, end);
    std::memcpy(frame + end, &crc, sizeof crc);
    end += sizeof crc;
    if (sizeof bytes_ - end_ < cobs_bound(end) + 2) return;
    bytes_[end_++] = 0;  // ends what may stand on the line before it
    end_ += cobs_encode(frame, end, bytes_ + end_);
    bytes_[end_++] = 0;
  }

  void pump() {
    if (next_ != end_ && board::try_write(bytes_[next_])) ++next_;
    if (next_ == end_) next_ = end_ = 0;
  }

  void flush() {
    while (next_ != end_) pump();
    while (!board::is_drained()) {
    }
  }

 private:
  static constexpr std::size_t MAX_REPLY = sizeof(FrameHeader) + sizeof(Ready) + sizeof(std::uint32_t);
  std::uint8_t bytes_[1024];
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  std::uint16_t sequence_ = 0;
};

class Monitor {
 public:
  Monitor() : window_(board::package_window()), receiver_(window_) {}

  void serve() {
    send_ready(0);
    while (!has_package_) {
      std::uint8_t byte;
      if (board::try_read(byte)) take(byte);
      outbox_.pump();
    }
    outbox_.flush();
  }

 private:
  void take(std::uint8_t byte) {
    ++since_good_;
    switch (receiver_.take(byte)) {
      case Event::NOTHING:
        break;
      case Event::COMMAND:
        since_good_ = 0;
        carry_out(receiver_.command());
        break;
      case Event::CHUNK:
        since_good_ = 0;
        send_received();
        break;
      case Event::DAMAGED:
        if (receiver_.size() != 0) send_received();
        break;
    }
    // A host that does not know the speed starts with the first one.
    if (since_good_ > PATIENCE + MAX_CHUNK * 2 || (receiver_.size() == 0 && since_good_ > PATIENCE)) {
      since_good_ = 0;
      if (clocks().baud != first_baud()) set_speed(first_baud());
    }
  }

  void carry_out(const Command& command) {
    switch (command.type) {
      case HostFrameType::SYNC:
        send_ready(command.upload);
        return;
      case HostFrameType::BEGIN:
        begin(command);
        return;
      case HostFrameType::RUN:
        run(command);
        return;
      case HostFrameType::SPEED:
        change_speed(command);
        return;
      case HostFrameType::CHUNK:  // never a command
        return;
    }
    refuse(Refusal::COMMAND, 0, static_cast<std::uint32_t>(command.type));
  }

  void begin(const Command& command) {
    Upload upload;
    if (!read(command, upload)) return;
    if (!receiver_.begin(command.upload, upload.size)) {
      refuse(Refusal::WINDOW, window_.size, upload.size);
      return;
    }
    crc_ = upload.crc32;
    send_received();
  }

  void run(const Command& command) {
    if (command.size != 0) return refuse(Refusal::COMMAND, 0, command.size);
    if (command.upload != receiver_.upload() || receiver_.size() == 0 || receiver_.received() != receiver_.size()) {
      return refuse(Refusal::INCOMPLETE, receiver_.size(), receiver_.received());
    }
    // Of what is in memory, and not of what has come over the line.
    const std::uint32_t found = crc32(window_.begin, receiver_.size());
    if (found != crc_) return refuse(Refusal::DIGEST, crc_, found);
    has_package_ = true;
    outbox_.put(MonitorFrameType::STARTED, &found, sizeof found);
  }

  void change_speed(const Command& command) {
    Speed speed;
    if (!read(command, speed)) return;
    outbox_.put(MonitorFrameType::SPEED, &speed, sizeof speed);
    outbox_.flush();
    set_speed(speed.baud);
  }

  void set_speed(std::uint32_t baud) {
    set_baud(baud);
    board::set_clocks(clocks());
  }

  template <typename Payload>
  bool read(const Command& command, Payload& payload) {
    if (command.size != sizeof payload) {
      refuse(Refusal::COMMAND, sizeof payload, command.size);
      return false;
    }
    std::memcpy(&payload, command.payload, sizeof payload);
    return true;
  }

  void refuse(Refusal reason, std::uint32_t expected, std::uint32_t found) {
    const Refused refused{static_cast<std::uint32_t>(reason), expected, found};
    outbox_.put(MonitorFrameType::REFUSED, &refused, sizeof refused);
  }

  void send_received() {
    const Received received{receiver_.upload(), receiver_.received(), receiver_.damaged(), board::lost_bytes()};
    outbox_.put(MonitorFrameType::RECEIVED, &received, sizeof received);
  }

  void send_ready(std::uint32_t nonce) {
    const board::Identity board = board::identity();
    const npu::Identity npu = npu::identify();
    Ready ready{};
    ready.nonce = nonce;
    ready.protocol = PROTOCOL_VERSION;
    ready.board = board.number;
    ready.cpu_hz = board.cpu_hz;
    ready.baud = clocks().baud;
    ready.npu_id = npu.id;
    ready.npu_config = npu.config;
    ready.window = window_.size;
    ready.lost = board::lost_bytes();
    if (nonce != 0) {
      for (std::uint32_t part = 0; part < board::CODE_PARTS; ++part) {
        const board::Pool code = board::code(part);
        ready.code_crc32 = crc32(code.begin, code.size, ready.code_crc32);
      }
    }
    outbox_.put(MonitorFrameType::READY, &ready, sizeof ready);
  }

  board::Pool window_;
  Receiver receiver_;
  Outbox outbox_;
  std::uint32_t crc_ = 0;
  std::uint32_t since_good_ = 0;
  bool has_package_ = false;
};

}  // namespace

void serve() {
  board::set_clocks(clocks());
  static Monitor monitor;
  monitor.serve();
}

}  // namespace ethos_hil::monitor
