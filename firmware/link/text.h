// A line of text in a fixed buffer: it replaces printf without its heap and its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

// A number to be shown as 0x and eight digits.
struct Hex {
  std::uint32_t value;
};

// At most `count` characters, up to a NUL; anything that is not printable ASCII becomes '?'.
struct Characters {
  const void* data;
  std::size_t count;
};

class Text {
 public:
  // Longer text is cut: a message must fit one frame.
  static constexpr std::size_t CAPACITY = 960;

  Text& operator<<(const char* text);
  Text& operator<<(Characters characters);
  // Built-in types, because std::uint32_t is another one of them on a host's compiler.
  Text& operator<<(unsigned long long number);
  Text& operator<<(long long number);
  Text& operator<<(unsigned long number) { return *this << static_cast<unsigned long long>(number); }
  Text& operator<<(long number) { return *this << static_cast<long long>(number); }
  Text& operator<<(unsigned number) { return *this << static_cast<unsigned long long>(number); }
  Text& operator<<(int number) { return *this << static_cast<long long>(number); }
  Text& operator<<(Hex number);

  const char* data() const { return buffer_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

 private:
  void put(char character);

  char buffer_[CAPACITY];
  std::size_t size_ = 0;
};

}  // namespace ethos_hil
