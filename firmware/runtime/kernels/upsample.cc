#include "runtime/kernels/upsample.h"

#include <cmath>

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

// Two neighbours in the input, and the weight of each.
struct Between {
  std::uint32_t first;
  std::uint32_t second;
  float first_weight;
  float second_weight;
};

struct Axis {
  std::int64_t in;
  std::int64_t out;
  float scale;  // from positions in the output to positions in the input
  bool align_corners;

  // At most the index of the last element, and 0 where the scale is not a usable number.
  std::uint32_t clamp(float position) const {
    const auto index = convert<std::int64_t>(std::floor(position));
    return static_cast<std::uint32_t>(index < 0 ? 0 : index < in ? index : in - 1);
  }

  std::uint32_t nearest(std::uint32_t at) const { return clamp(static_cast<float>(at) * scale); }

  Between between(std::uint32_t at) const {
    if (in == out) return {at, at, 1.0f, 0.0f};
    float position = static_cast<float>(at) * scale;
    if (!align_corners) {
      position = scale * (static_cast<float>(at) + 0.5f) - 0.5f;
      if (position < 0.0f) position = 0.0f;
    }
    const std::uint32_t first = clamp(position);
    const float rest = position - static_cast<float>(first);
    const float weight = rest < 0.0f ? 0.0f : rest < 1.0f ? rest : 1.0f;
    return {first, first + (std::int64_t{first} < in - 1 ? 1u : 0u), 1.0f - weight, weight};
  }
};

Axis take_axis(const Arguments& arguments, const View& in, const View& out, std::uint32_t which, std::uint32_t size_at,
               std::uint32_t factors_at, bool align_corners) {
  Axis axis{in.sizes[2 + which], out.sizes[2 + which], 0.0f, align_corners};
  if (axis.in == 0 || axis.out == 0) arguments.reject(Text() << "a plane is empty");
  double factor;
  std::int64_t expected;
  if (!arguments.is_none(factors_at)) {
    if (!arguments.is_none(size_at)) arguments.reject(Text() << "both a size and factors are given");
    factor = arguments.real_item(factors_at, which);
    expected = convert<std::int64_t>(static_cast<double>(axis.in) * factor);
  } else {
    expected = arguments.list_item(size_at, which);
    factor = static_cast<double>(expected) / static_cast<double>(axis.in);
  }
  if (!(factor > 0) || expected != axis.out) arguments.reject_shapes();
  if (!align_corners) {
    axis.scale = static_cast<float>(1.0 / factor);
  } else if (axis.out > 1) {
    axis.scale = static_cast<float>(static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1));
  }
  return axis;
}

void expect_planes(const Arguments& arguments, const View& in, const View& out) {
  if (in.type != out.type)
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  if (in.rank != 4 || out.rank != 4 || in.sizes[0] != out.sizes[0] || in.sizes[1] != out.sizes[1]) {
    arguments.reject_shapes();
  }
}

}  // namespace

void upsample_nearest2d(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZE, FACTORS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const View out = view_of(arguments.out(OUT));
  expect_planes(arguments, in, out);
  const Axis y = take_axis(arguments, in, out, 0, SIZE, FACTORS, false);
  const Axis x = take_axis(arguments, in, out, 1, SIZE, FACTORS, false);
  for (std::uint32_t v = 0; v < out.sizes[2]; ++v) {
    for (std::uint32_t u = 0; u < out.sizes[3]; ++u) {
      View from = in;
      View to = out;
      slice(from, 2, y.nearest(v), 1, 1);
      slice(from, 3, x.nearest(u), 1, 1);
      slice(to, 2, v, 1, 1);
      slice(to, 3, u, 1, 1);
      copy(arguments, from, to);
    }
  }
}

void upsample_bilinear2d(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZE, ALIGN_CORNERS, FACTORS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const View out = view_of(arguments.out(OUT));
  expect_planes(arguments, in, out);
  const Load<float> load = load_as<float>(in.type);
  const Store<float> store = store_as<float>(out.type);
  if (load == nullptr || in.type == ScalarType::DOUBLE || in.type == ScalarType::BOOL) {
    arguments.reject(Text() << type_name(in.type) << " is not supported");
  }
  const bool align_corners = arguments.integer(ALIGN_CORNERS) != 0;
  const Axis y = take_axis(arguments, in, out, 0, SIZE, FACTORS, align_corners);
  const Axis x = take_axis(arguments, in, out, 1, SIZE, FACTORS, align_corners);
  const std::uint32_t size = element_size(in.type);
  for (std::uint32_t n = 0; n < out.sizes[0]; ++n) {
    for (std::uint32_t c = 0; c < out.sizes[1]; ++c) {
      const std::uint32_t plane = n * in.strides[0] + c * in.strides[1];
      for (std::uint32_t v = 0; v < out.sizes[2]; ++v) {
        const Between rows = y.between(v);
        for (std::uint32_t u = 0; u < out.sizes[3]; ++u) {
          const Between columns = x.between(u);
          const auto get = [&](std::uint32_t row, std::uint32_t column) {
            return load(in.data + (plane + row * in.strides[2] + column * in.strides[3]) * size);
          };
          const float top = get(rows.first, columns.first) * columns.first_weight +
                            get(rows.first, columns.second) * columns.second_weight;
          const float bottom = get(rows.second, columns.first) * columns.first_weight +
                               get(rows.second, columns.second) * columns.second_weight;
          const std::uint32_t at = n * out.strides[0] + c * out.strides[1] + v * out.strides[2] + u * out.strides[3];
          store(out.data + at * size, top * rows.first_weight + bottom * rows.second_weight);
        }
      }
    }
  }
}

}  // namespace ethos_hil
