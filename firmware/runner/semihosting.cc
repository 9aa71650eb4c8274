#include "runner/semihosting.h"

#include <cstring>

#include "boards/board.h"

namespace ethos_hil::semihosting {

namespace {

enum Operation : std::uint32_t {
  OPEN = 0x01,
  CLOSE = 0x02,
  WRITE = 0x05,
  READ = 0x06,
  FLEN = 0x0C,
  ERRNO = 0x13,
  GET_CMDLINE = 0x15,
  EXIT = 0x18,
  EXIT_EXTENDED = 0x20,
};

using Word = std::uintptr_t;

// Reasons of SYS_EXIT.
constexpr Word APPLICATION_EXIT = 0x20026;
constexpr Word RUN_TIME_ERROR = 0x20023;

std::int32_t call(Operation operation, const Word* block) { return board::semihosting(operation, block); }

// Both return the number of bytes not transferred. A host may stop early, and reads nothing at the end of a file.
bool transfer(Operation operation, Handle file, Word data, std::size_t size) {
  while (size != 0) {
    const Word block[] = {static_cast<Word>(file), data, size};
    const auto left = static_cast<std::uint32_t>(call(operation, block));
    if (left >= size) return false;
    data += size - left;
    size = left;
  }
  return true;
}

}  // namespace

bool command_line(char* line, std::size_t size) {
  line[0] = '\0';
  const Word block[] = {reinterpret_cast<Word>(line), size};
  return call(GET_CMDLINE, block) == 0;
}

Handle open(const char* name, Mode mode) {
  const Word block[] = {reinterpret_cast<Word>(name), static_cast<Word>(mode), std::strlen(name)};
  return call(OPEN, block);
}

void close(Handle file) {
  const Word block[] = {static_cast<Word>(file)};
  call(CLOSE, block);
}

std::int32_t length(Handle file) {
  const Word block[] = {static_cast<Word>(file)};
  return call(FLEN, block);
}

bool read(Handle file, void* data, std::size_t size) {
  return transfer(READ, file, reinterpret_cast<Word>(data), size);
}

bool write(Handle file, const void* data, std::size_t size) {
  return transfer(WRITE, file, reinterpret_cast<Word>(data), size);
}

std::int32_t error() { return call(ERRNO, nullptr); }

void exit(std::uint32_t status) {
  const Word block[] = {APPLICATION_EXIT, status};
  call(EXIT_EXTENDED, block);
  // A host without that extension returns, and knows only success and failure.
  board::semihosting(EXIT, reinterpret_cast<const void*>(status == 0 ? APPLICATION_EXIT : RUN_TIME_ERROR));
  board::park();
}

}  // namespace ethos_hil::semihosting
