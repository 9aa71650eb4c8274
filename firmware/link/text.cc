#include "link/text.h"

namespace ethos_hil {

void Text::put(char character) {
  if (size_ < CAPACITY) buffer_[size_++] = character;
}

Text& Text::operator<<(const char* text) {
  for (; *text != '\0'; ++text) put(*text);
  return *this;
}

Text& Text::operator<<(Characters characters) {
  const auto* text = static_cast<const char*>(characters.data);
  for (std::size_t i = 0; i < characters.count && text[i] != '\0'; ++i) {
    put(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
  }
  return *this;
}

Text& Text::operator<<(unsigned long long number) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) put(digits[--count]);
  return *this;
}

Text& Text::operator<<(long long number) {
  if (number >= 0) return *this << static_cast<unsigned long long>(number);
  put('-');
  return *this << ~static_cast<unsigned long long>(number) + 1;
}

Text& Text::operator<<(Hex number) {
  *this << "0x";
  for (int shift = 28; shift >= 0; shift -= 4) put("0123456789abcdef"[number.value >> shift & 0xF]);
  return *this;
}

}  // namespace ethos_hil
