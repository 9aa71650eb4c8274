// The sums of products that convolutions and matrix products are made of. A core with MVE takes several elements at a
// time. Sums wrap, so their order is free.
#pragma once

#include <cstdint>

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

namespace ethos_hil {

// Elements in a row, and what is added to each.
struct Row {
  const std::int8_t* elements;
  std::int32_t offset;
};

#if defined(__ARM_FEATURE_MVE)

// The sum of the products of `count` elements of one row with those of another.
inline std::uint32_t dot(Row left, Row right, std::uint32_t count) {
  constexpr std::uint32_t LANES = 16;
  std::int32_t products = 0;
  std::int32_t lefts = 0;
  std::int32_t rights = 0;
  const auto add = [&](int8x16_t some, int8x16_t others) {
    products = vmladavaq_s8(products, some, others);
    lefts = vaddvaq_s8(lefts, some);
    rights = vaddvaq_s8(rights, others);
  };
  const std::uint32_t rest = count % LANES;
  for (std::uint32_t at = rest; at < count; at += LANES) {
    add(vldrbq_s8(left.elements + at), vldrbq_s8(right.elements + at));
  }
  if (rest != 0) {
    const mve_pred16_t inside = vctp8q(rest);
    add(vldrbq_z_s8(left.elements, inside), vldrbq_z_s8(right.elements, inside));
  }
  const auto bits = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
  return bits(products) + bits(left.offset) * bits(rights) + bits(right.offset) * bits(lefts) +
         bits(left.offset * right.offset) * count;
}

// Sums of `4 * VECTORS` neighbouring channels. Of one vector, some may be left out.
template <std::int32_t VECTORS>
class ChannelSums {
 public:
  explicit ChannelSums(std::int32_t count) : inside_(vctp32q(static_cast<std::uint32_t>(count))) {
    for (int32x4_t& sums : sums_) sums = vdupq_n_s32(0);
  }

  // Adds each channel's product of a value and a weight: values beside each other, or one for all.
  void add(Row values, const std::int8_t* weights) {
    for (std::int32_t v = 0; v < VECTORS; ++v) {
      add(v, vaddq_n_s32(load(values.elements + v * LANES), values.offset), weights);
    }
  }
  void add(std::int32_t value, const std::int8_t* weights) {
    for (std::int32_t v = 0; v < VECTORS; ++v) add(v, vdupq_n_s32(value), weights);
  }

  // Writes all sums; those of channels that are left out mean nothing.
  void store(std::int32_t* to) const {
    for (std::int32_t v = 0; v < VECTORS; ++v) vstrwq_s32(to + v * LANES, sums_[v]);
  }

 private:
  static constexpr std::int32_t LANES = 4;

  int32x4_t load(const std::int8_t* from) const {
    return VECTORS == 1 ? vldrbq_z_s32(from, inside_) : vldrbq_s32(from);
  }
  void add(std::int32_t v, int32x4_t values, const std::int8_t* weights) {
    sums_[v] = vaddq_s32(sums_[v], vmulq_s32(values, load(weights + v * LANES)));
  }

  mve_pred16_t inside_;
  int32x4_t sums_[VECTORS];
};

#else

inline std::uint32_t dot(Row left, Row right, std::uint32_t count) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    sum += static_cast<std::uint32_t>((left.elements[i] + left.offset) * (right.elements[i] + right.offset));
  }
  return sum;
}

template <std::int32_t VECTORS>
class ChannelSums {
 public:
  explicit ChannelSums(std::int32_t count) : count_(count) {}

  void add(Row values, const std::int8_t* weights) {
    for (std::int32_t c = 0; c < count_; ++c) add(c, values.elements[c] + values.offset, weights);
  }
  void add(std::int32_t value, const std::int8_t* weights) {
    for (std::int32_t c = 0; c < count_; ++c) add(c, value, weights);
  }
  void store(std::int32_t* to) const {
    for (std::int32_t c = 0; c < count_; ++c) to[c] = static_cast<std::int32_t>(sums_[c]);
  }

 private:
  void add(std::int32_t c, std::int32_t value, const std::int8_t* weights) {
    sums_[c] += static_cast<std::uint32_t>(value * weights[c]);
  }

  std::int32_t count_;
  std::uint32_t sums_[4 * VECTORS] = {};
};

#endif

}  // namespace ethos_hil
