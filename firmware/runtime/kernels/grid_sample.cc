#include "runtime/kernels/grid_sample.h"

#include <cmath>

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

enum class Padding : std::int64_t { ZEROS, BORDER, REFLECTION };

// Reflects a place at the borders low / 2 and high / 2, as often as it takes.
float reflect(float at, std::int64_t low, std::int64_t high) {
  if (low == high) return 0.0f;
  const float least = static_cast<float>(low) / 2.0f;
  const float span = static_cast<float>(high - low) / 2.0f;
  at = std::fabs(at - least);
  const float extra = std::fmod(at, span);
  const bool flipped = std::fmod(std::floor(at / span), 2.0f) != 0.0f;
  return flipped ? span - extra + least : extra + least;
}

struct Planes {
  View in;
  Padding padding;
  bool align_corners;

  // From a coordinate of -1 to 1, to a place among the pixels of a dimension.
  float place_of(float coordinate, std::int64_t size) const {
    const auto length = static_cast<float>(size);
    const float at =
        align_corners ? (coordinate + 1.0f) / 2.0f * (length - 1.0f) : ((coordinate + 1.0f) * length - 1.0f) / 2.0f;
    if (padding == Padding::ZEROS) return at;
    if (padding == Padding::BORDER) return clip(at, length);
    return clip(align_corners ? reflect(at, 0, 2 * (size - 1)) : reflect(at, -1, 2 * size - 1), length);
  }

  static float clip(float at, float length) {
    const float positive = at > 0.0f ? at : 0.0f;  // and for NaN
    return positive < length - 1.0f ? positive : length - 1.0f;
  }

  float pixel(std::uint32_t n, std::uint32_t c, std::int64_t y, std::int64_t x) const {
    if (y < 0 || y >= std::int64_t{in.sizes[2]} || x < 0 || x >= std::int64_t{in.sizes[3]}) return 0.0f;
    return reinterpret_cast<const float*>(
        in.data)[n * in.strides[0] + c * in.strides[1] + static_cast<std::uint32_t>(y) * in.strides[2] +
                 static_cast<std::uint32_t>(x) * in.strides[3]];
  }
};

// A pixel that is so far outside that sums cannot overflow has the same value as any other.
std::int64_t whole(float value) {
  constexpr std::int64_t FAR = std::int64_t{1} << 40;
  const auto found = convert<std::int64_t>(value);
  return found < -FAR ? -FAR : found > FAR ? FAR : found;
}

float bilinear(const Planes& planes, std::uint32_t n, std::uint32_t c, float y, float x) {
  const std::int64_t top = whole(std::floor(y));
  const std::int64_t left = whole(std::floor(x));
  const float down = y - static_cast<float>(top);
  const float right = x - static_cast<float>(left);
  const float weights[] = {(1.0f - right) * (1.0f - down), right * (1.0f - down), (1.0f - right) * down, right * down};
  float sum = planes.pixel(n, c, top, left) * weights[0];
  sum += planes.pixel(n, c, top, left + 1) * weights[1];
  sum += planes.pixel(n, c, top + 1, left) * weights[2];
  return sum + planes.pixel(n, c, top + 1, left + 1) * weights[3];
}

}  // namespace

void grid_sampler_2d(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, GRID, MODE, PADDING, ALIGN_CORNERS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const View grid = view_of(arguments.tensor(GRID));
  const View out = view_of(arguments.out(OUT));
  for (const View* view : {&in, &grid, &out}) {
    if (view->type != ScalarType::FLOAT) arguments.reject(Text() << "a tensor is not FLOAT");
    if (view->rank != 4) arguments.reject_shapes();
  }
  const bool fits = grid.sizes[3] == 2 && grid.sizes[0] == in.sizes[0] && out.sizes[0] == in.sizes[0] &&
                    out.sizes[1] == in.sizes[1] && out.sizes[2] == grid.sizes[1] && out.sizes[3] == grid.sizes[2];
  if (!fits || in.sizes[2] == 0 || in.sizes[3] == 0) arguments.reject_shapes();
  const std::int64_t mode = arguments.integer(MODE);
  const std::int64_t padding = arguments.integer(PADDING);
  if (mode < 0 || mode > 1 || padding < 0 || padding > 2) {
    arguments.reject(Text() << "interpolation " << mode << " with padding " << padding);
  }
  const Planes planes{in, static_cast<Padding>(padding), arguments.integer(ALIGN_CORNERS) != 0};
  const auto* points = reinterpret_cast<const float*>(grid.data);
  auto* results = reinterpret_cast<float*>(out.data);
  for (std::uint32_t n = 0; n < out.sizes[0]; ++n) {
    for (std::uint32_t v = 0; v < out.sizes[2]; ++v) {
      for (std::uint32_t u = 0; u < out.sizes[3]; ++u) {
        const float* point = points + n * grid.strides[0] + v * grid.strides[1] + u * grid.strides[2];
        const float x = planes.place_of(point[0], in.sizes[3]);
        const float y = planes.place_of(point[grid.strides[3]], in.sizes[2]);
        for (std::uint32_t c = 0; c < out.sizes[1]; ++c) {
          const float value = mode == 0
                                  ? bilinear(planes, n, c, y, x)
                                  : planes.pixel(n, c, whole(__builtin_nearbyintf(y)), whole(__builtin_nearbyintf(x)));
          results[n * out.strides[0] + c * out.strides[1] + v * out.strides[2] + u * out.strides[3]] = value;
        }
      }
    }
  }
}

}  // namespace ethos_hil
