// Prints the items that the C++ decoder finds in files, one line each: "file NAME", "frame TYPE SEQUENCE HEX", "other
// HEX", "break TYPE SEQUENCE". The tests compare it with harness/link/frames.py.
#include <cstdio>

#include "link/decoder.h"

namespace {

using namespace ethos_hil;

// False when there was nothing to print.
bool print(const frames::Item& item) {
  switch (item.kind) {
    case frames::Item::Kind::NOTHING:
      return false;
    case frames::Item::Kind::BREAK:
      std::printf("break %u %u\n", item.type, item.sequence);
      return true;
    case frames::Item::Kind::FRAME:
      std::printf("frame %u %u ", item.type, item.sequence);
      break;
    case frames::Item::Kind::OTHER:
      std::printf("other ");
      break;
  }
  for (std::size_t i = 0; i < item.size; ++i) std::printf("%02x", item.data[i]);
  std::printf("\n");
  return true;
}

bool decode(const char* name) {
  std::FILE* file = std::fopen(name, "rb");
  if (file == nullptr) return false;
  frames::Decoder decoder;
  std::uint8_t bytes[4096];
  for (std::size_t count; (count = std::fread(bytes, 1, sizeof bytes, file)) != 0;) {
    const std::uint8_t* next = bytes;
    while (print(decoder.take(next, bytes + count))) {
    }
  }
  print(decoder.close());
  return std::fclose(file) == 0;
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    std::printf("file %s\n", arguments[i]);
    if (!decode(arguments[i])) {
      std::fprintf(stderr, "ethos-hil-decode: cannot read %s\n", arguments[i]);
      return 2;
    }
  }
  return 0;
}
