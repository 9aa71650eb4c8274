#include "runtime/kernels/pool.h"

#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t { INPUT, KERNEL_SIZE, STRIDE, PADDING };

constexpr std::uint32_t NO_LIST = UINT32_MAX;

// The windows along one dimension. All fields are below 2^31, so that no sum or product of two overflows.
struct Axis {
  std::int64_t in;
  std::int64_t out;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
  std::uint32_t in_pitch;  // elements
  std::uint32_t out_pitch;

  // The input position of element `step` of window `window`; it may be outside.
  std::int64_t at(std::int64_t window, std::int64_t step) const { return window * stride - padding + step * dilation; }
  bool inside(std::int64_t position) const { return position >= 0 && position < in; }
};

struct Geometry {
  Axis y;
  Axis x;
  // The dimensions before these: N (1 if absent) and C.
  std::uint32_t batches;
  std::uint32_t channels;
  std::uint32_t in_batch_pitch;
  std::uint32_t out_batch_pitch;
  std::uint32_t in_channel_pitch;
  std::uint32_t out_channel_pitch;
};

// Item `axis` (0 or 1) of a list argument, which must be within `low` and 2^31 - 1.
std::int64_t item(const Arguments& arguments, std::uint32_t position, std::uint32_t axis, std::int64_t low) {
  const std::uint32_t size = arguments.list_size(position);
  if (size != 1 && size != 2) {
    arguments.reject(Text() << "argument " << position << " has " << size << " items, expected 1 or 2");
  }
  const std::int64_t found = arguments.list_item(position, size == 1 ? 0 : axis);
  if (found < low || found > INT32_MAX) {
    arguments.reject(Text() << "argument " << position << " has an item " << found << ", expected " << low << " to "
                            << INT32_MAX);
  }
  return found;
}

std::int64_t count_windows(const Axis& axis, bool ceil_mode) {
  const std::int64_t room = axis.in + 2 * axis.padding - axis.dilation * (axis.kernel - 1) - 1;
  if (room < 0 && !ceil_mode) return 0;
  const std::int64_t last = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride;
  // A further window may extend past the padding's end, but must start before it.
  return ceil_mode && last * axis.stride >= axis.in + axis.padding ? last : last + 1;
}

Axis take_axis(const Arguments& arguments, const Tensor& in, const Tensor& out, std::uint32_t which,
               std::uint32_t dilation_at, bool ceil_mode) {
  const std::uint32_t dimension = in.rank - 2u + which;
  std::uint32_t in_strides[MAX_RANK];
  std::uint32_t out_strides[MAX_RANK];
  element_strides(in, in_strides);
  element_strides(out, out_strides);
  Axis axis{};
  axis.in = in.sizes[dimension];
  axis.out = out.sizes[dimension];
  axis.kernel = item(arguments, KERNEL_SIZE, which, 1);
  axis.stride = arguments.list_size(STRIDE) == 0 ? axis.kernel : item(arguments, STRIDE, which, 1);
  axis.padding = item(arguments, PADDING, which, 0);
  axis.dilation = dilation_at == NO_LIST ? 1 : item(arguments, dilation_at, which, 1);
  axis.in_pitch = in_strides[dimension];
  axis.out_pitch = out_strides[dimension];
  if (axis.padding > axis.kernel / 2) {
    arguments.reject(Text() << "padding " << axis.padding << " is more than half of the kernel's size " << axis.kernel);
  }
  const std::int64_t windows = count_windows(axis, ceil_mode);
  if (windows != axis.out || windows < 1) {
    arguments.reject(Text() << "dimension " << dimension << " of the output is " << axis.out << ", but there are "
                            << windows << " windows");
  }
  return axis;
}

// Checks for floats, or elements of another type, of shape [C, H, W] or [N, C, H, W] that differ in H and W only.
void expect_images(const Arguments& arguments, const Tensor& in, const Tensor& out,
                   ScalarType other = ScalarType::FLOAT) {
  if ((in.type != ScalarType::FLOAT && in.type != other) || out.type != in.type) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if ((in.rank != 3 && in.rank != 4) || out.rank != in.rank) {
    arguments.reject(Text() << "input has " << std::uint32_t{in.rank} << " dimensions, output "
                            << std::uint32_t{out.rank} << "; expected 3 or 4 of both");
  }
  for (std::uint32_t i = 0; i + 2 < in.rank; ++i) {
    if (in.sizes[i] != out.sizes[i]) arguments.reject(Text() << "input and output differ in dimension " << i);
  }
}

Geometry take_geometry(const Arguments& arguments, const Tensor& in, const Tensor& out, std::uint32_t dilation_at,
                       std::uint32_t ceil_mode_at, ScalarType other = ScalarType::FLOAT) {
  expect_images(arguments, in, out, other);
  const bool ceil_mode = arguments.integer(ceil_mode_at) != 0;
  Geometry geometry{};
  geometry.y = take_axis(arguments, in, out, 0, dilation_at, ceil_mode);
  geometry.x = take_axis(arguments, in, out, 1, dilation_at, ceil_mode);
  std::uint32_t in_strides[MAX_RANK];
  std::uint32_t out_strides[MAX_RANK];
  element_strides(in, in_strides);
  element_strides(out, out_strides);
  const std::uint32_t channel = in.rank - 3u;
  geometry.channels = static_cast<std::uint32_t>(in.sizes[channel]);
  geometry.in_channel_pitch = in_strides[channel];
  geometry.out_channel_pitch = out_strides[channel];
  geometry.batches = 1;
  if (in.rank == 4) {
    geometry.batches = static_cast<std::uint32_t>(in.sizes[0]);
    geometry.in_batch_pitch = in_strides[0];
    geometry.out_batch_pitch = out_strides[0];
  }
  return geometry;
}

// Calls reduce(plane, window's y, window's x, offset in the output) for every window; `plane` is where the window's
// channel starts.
template <typename T, typename Reduce>
void for_each_window(const Geometry& g, const T* in, const Reduce& reduce) {
  for (std::uint32_t n = 0; n < g.batches; ++n) {
    for (std::uint32_t c = 0; c < g.channels; ++c) {
      const T* plane = in + n * g.in_batch_pitch + c * g.in_channel_pitch;
      const std::uint32_t first = n * g.out_batch_pitch + c * g.out_channel_pitch;
      for (std::int64_t y = 0; y < g.y.out; ++y) {
        for (std::int64_t x = 0; x < g.x.out; ++x) {
          reduce(plane, y, x,
                 first + static_cast<std::uint32_t>(y) * g.y.out_pitch + static_cast<std::uint32_t>(x) * g.x.out_pitch);
        }
      }
    }
  }
}

// Calls take(value, index in the channel) for the elements of a window inside the input, row by row.
template <typename T, typename Take>
void for_each_element(const Geometry& g, const T* plane, std::int64_t y, std::int64_t x, const Take& take) {
  for (std::int64_t step_y = 0; step_y < g.y.kernel; ++step_y) {
    const std::int64_t in_y = g.y.at(y, step_y);
    if (!g.y.inside(in_y)) continue;
    const T* row = plane + static_cast<std::uint32_t>(in_y) * g.y.in_pitch;
    for (std::int64_t step_x = 0; step_x < g.x.kernel; ++step_x) {
      const std::int64_t in_x = g.x.at(x, step_x);
      if (!g.x.inside(in_x)) continue;
      take(row[static_cast<std::uint32_t>(in_x) * g.x.in_pitch], in_y * g.x.in + in_x);
    }
  }
}

// How many positions of a window an average counts: those inside the input, or inside its padded borders.
std::int64_t counted(const Axis& axis, std::int64_t window, bool include_padding) {
  const std::int64_t border = include_padding ? axis.padding : 0;
  const std::int64_t begin = axis.at(window, 0);
  const std::int64_t end = begin + axis.kernel;
  return (end < axis.in + border ? end : axis.in + border) - (begin > -border ? begin : -border);
}

template <typename T>
void find_largest(const Geometry& g, const Tensor& in, Tensor& out, Tensor& indices) {
  auto* to = reinterpret_cast<T*>(out.data);
  auto* index_to = reinterpret_cast<std::int64_t*>(indices.data);
  for_each_window(g, reinterpret_cast<const T*>(in.data),
                  [&](const T* plane, std::int64_t y, std::int64_t x, std::uint32_t offset) {
                    T best = 0;
                    std::int64_t best_index = 0;
                    bool started = false;
                    for_each_element(g, plane, y, x, [&](T value, std::int64_t index) {
                      if (started && !(value > best)) return;
                      best = value;
                      best_index = index;
                      started = true;
                    });
                    to[offset] = best;
                    index_to[offset] = best_index;
                  });
}

}  // namespace

void avg_pool2d(const Arguments& arguments) {
  enum : std::uint32_t { CEIL_MODE = PADDING + 1, COUNT_INCLUDE_PAD, DIVISOR_OVERRIDE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  const Geometry g = take_geometry(arguments, in, out, NO_LIST, CEIL_MODE);
  const bool include_padding = arguments.integer(COUNT_INCLUDE_PAD) != 0;
  const std::int64_t divisor = arguments.is_none(DIVISOR_OVERRIDE) ? 0 : arguments.integer(DIVISOR_OVERRIDE);
  if (divisor == 0 && !arguments.is_none(DIVISOR_OVERRIDE)) arguments.reject(Text() << "divisor_override is 0");
  auto* to = reinterpret_cast<float*>(out.data);
  for_each_window(g, reinterpret_cast<const float*>(in.data),
                  [&](const float* plane, std::int64_t y, std::int64_t x, std::uint32_t offset) {
                    float sum = 0.0f;
                    bool started = false;
                    for_each_element(g, plane, y, x, [&](float value, std::int64_t) {
                      sum = started ? sum + value : value;
                      started = true;
                    });
                    const std::int64_t by =
                        divisor != 0 ? divisor : counted(g.y, y, include_padding) * counted(g.x, x, include_padding);
                    to[offset] = sum / static_cast<float>(by);
                  });
}

void adaptive_avg_pool2d(const Arguments& arguments) {
  enum : std::uint32_t { SIZE = INPUT + 1, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  expect_images(arguments, in, out);
  if (in.elements == 0) arguments.reject(Text() << "the input is empty");
  View from = view_of(in);
  View to = view_of(out);
  if (in.rank == 3) {
    insert(arguments, from, 0);
    insert(arguments, to, 0);
  }
  // Returns where window `i` of `windows` over `size` elements starts. It ends where, rounded up, the next one starts.
  const auto begin = [](std::uint64_t i, std::uint32_t windows, std::uint32_t size) { return i * size / windows; };
  const auto end = [](std::uint64_t i, std::uint32_t windows, std::uint32_t size) {
    return ((i + 1) * size + windows - 1) / windows;
  };
  Walk walk(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t strides[] = {from.strides[i], to.strides[i]};
    walk.add(from.sizes[i], strides);
  }
  do {
    const float* plane = reinterpret_cast<const float*>(from.data) + walk.offset(0);
    float* target = reinterpret_cast<float*>(to.data) + walk.offset(1);
    for (std::uint32_t y = 0; y < to.sizes[2]; ++y) {
      for (std::uint32_t x = 0; x < to.sizes[3]; ++x) {
        const auto top = static_cast<std::uint32_t>(begin(y, to.sizes[2], from.sizes[2]));
        const auto bottom = static_cast<std::uint32_t>(end(y, to.sizes[2], from.sizes[2]));
        const auto left = static_cast<std::uint32_t>(begin(x, to.sizes[3], from.sizes[3]));
        const auto right = static_cast<std::uint32_t>(end(x, to.sizes[3], from.sizes[3]));
        float sum = 0;
        for (std::uint32_t v = top; v < bottom; ++v) {
          for (std::uint32_t u = left; u < right; ++u) sum += plane[v * from.strides[2] + u * from.strides[3]];
        }
        target[y * to.strides[2] + x * to.strides[3]] = sum / static_cast<float>((bottom - top) * (right - left));
      }
    }
  } while (walk.next());
}

void max_pool2d_with_indices(const Arguments& arguments) {
  enum : std::uint32_t { DILATION = PADDING + 1, CEIL_MODE, OUT, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  Tensor& indices = arguments.out(INDICES);
  if (indices.type != ScalarType::LONG) {
    arguments.reject(Text() << "indices are " << type_name(indices.type) << ", expected LONG");
  }
  if (!same_shape(out, indices)) arguments.reject(Text() << "output and indices differ in shape");
  if (!same_layout(out, indices)) arguments.reject(Text() << "output and indices differ in dim_order");
  const Geometry g = take_geometry(arguments, in, out, DILATION, CEIL_MODE, ScalarType::CHAR);
  if (in.type == ScalarType::CHAR) return find_largest<std::int8_t>(g, in, out, indices);
  find_largest<float>(g, in, out, indices);
}

}  // namespace ethos_hil
