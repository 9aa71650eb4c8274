#include "link/sha256.h"

#include <cstring>

namespace ethos_hil {

namespace {

constexpr std::size_t BLOCK = 64;

// FIPS 180-4, 4.2.2.
constexpr std::uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::uint32_t rotate(std::uint32_t value, int by) { return value >> by | value << (32 - by); }

struct State {
  std::uint32_t word[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};  // FIPS 180-4, 5.3.3

  void absorb(const std::uint8_t* block) {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      std::uint32_t little;
      std::memcpy(&little, block + 4 * i, 4);
      w[i] = __builtin_bswap32(little);
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = word;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i];
      const std::uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1;
      d = c, c = b, b = a, a = t1 + t2;
    }
    const std::uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) word[i] += sum[i];
  }
};

}  // namespace

Sha256 sha256(const std::uint8_t* data, std::size_t size) {
  State state;
  std::size_t done = 0;
  for (; size - done >= BLOCK; done += BLOCK) state.absorb(data + done);

  // The rest of the data, a one bit, zeros, and the length in bits as a big-endian 64-bit number at the end of a block.
  std::uint8_t tail[2 * BLOCK] = {};
  const std::size_t rest = size - done;
  std::memcpy(tail, data + done, rest);
  tail[rest] = 0x80;
  const std::size_t padded = rest + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
  const std::uint64_t bits = __builtin_bswap64(std::uint64_t{size} * 8);
  std::memcpy(tail + padded - 8, &bits, 8);
  for (std::size_t at = 0; at < padded; at += BLOCK) state.absorb(tail + at);

  Sha256 hash;
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t big = __builtin_bswap32(state.word[i]);
    std::memcpy(hash.bytes + 4 * i, &big, 4);
  }
  return hash;
}

}  // namespace ethos_hil
