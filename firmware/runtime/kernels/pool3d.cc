#include "runtime/kernels/pool3d.h"

#include <cmath>

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t AXES = 3;
constexpr std::uint32_t RANK = AXES + 2;  // batch and channel come first

enum : std::uint32_t { INPUT, KERNEL_SIZE, STRIDE, PADDING, DILATION };

// The elements of one window along one dimension: `begin`, and every `step`-th after it below `end`, all inside the
// input.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t step;
};

// The windows along one dimension. Items of lists are below 2^31, so that no sum or product of two overflows.
struct Windows {
  std::int64_t size;  // of the input
  std::int64_t count;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;

  Span span(std::int64_t at) const {
    const std::int64_t first = at * stride - padding;
    const std::int64_t last = first + (kernel - 1) * dilation + 1;
    const std::int64_t begin = first < 0 ? first + (-first + dilation - 1) / dilation * dilation : first;
    return {begin, last < size ? last : size, dilation};
  }
};

std::int64_t item(const Arguments& arguments, std::uint32_t position, std::uint32_t axis, std::int64_t low) {
  const std::uint32_t size = arguments.list_size(position);
  if (size != 1 && size != AXES) {
    arguments.reject(Text() << "argument " << position << " has " << size << " items, expected 1 or " << AXES);
  }
  const std::int64_t found = arguments.list_item(position, size == 1 ? 0 : axis);
  if (found < low || found > INT32_MAX) {
    arguments.reject(Text() << "argument " << position << " has an item " << found << ", expected " << low << " to "
                            << INT32_MAX);
  }
  return found;
}

// Input and output, with a batch, and the windows of each dimension.
struct Volumes {
  View in;
  View out;
  Windows windows[AXES];
};

Volumes take_volumes(const Arguments& arguments, std::uint32_t out_at) {
  Volumes volumes{view_of(arguments.tensor(INPUT)), view_of(arguments.out(out_at)), {}};
  View& in = volumes.in;
  View& out = volumes.out;
  if (in.type != ScalarType::FLOAT || out.type != ScalarType::FLOAT) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if (in.rank != out.rank || (in.rank != RANK && in.rank != RANK - 1)) arguments.reject_shapes();
  if (in.rank == RANK - 1) {
    insert(arguments, in, 0);
    insert(arguments, out, 0);
  }
  if (in.sizes[0] != out.sizes[0] || in.sizes[1] != out.sizes[1]) arguments.reject_shapes();
  for (std::uint32_t i = 0; i < AXES; ++i) {
    if (in.sizes[i + 2] == 0 || out.sizes[i + 2] == 0) arguments.reject_shapes();
    volumes.windows[i].size = in.sizes[i + 2];
    volumes.windows[i].count = out.sizes[i + 2];
  }
  return volumes;
}

Volumes take_windows(const Arguments& arguments, std::uint32_t out_at, std::uint32_t ceil_mode_at) {
  Volumes volumes = take_volumes(arguments, out_at);
  const bool ceil_mode = arguments.integer(ceil_mode_at) != 0;
  for (std::uint32_t i = 0; i < AXES; ++i) {
    Windows& axis = volumes.windows[i];
    axis.kernel = item(arguments, KERNEL_SIZE, i, 1);
    axis.stride = arguments.list_size(STRIDE) == 0 ? axis.kernel : item(arguments, STRIDE, i, 1);
    axis.padding = item(arguments, PADDING, i, 0);
    axis.dilation = item(arguments, DILATION, i, 1);
    if (axis.padding > axis.kernel / 2) {
      arguments.reject(Text() << "padding " << axis.padding << " is more than half of the kernel's size "
                              << axis.kernel);
    }
    const std::int64_t room = axis.size + 2 * axis.padding - axis.dilation * (axis.kernel - 1) - 1;
    std::int64_t found = 0;
    if (room >= 0 || ceil_mode) {
      const std::int64_t last = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride;
      // A further window may extend past the padding's end, but must start before it.
      found = ceil_mode && last * axis.stride >= axis.size + axis.padding ? last : last + 1;
    }
    if (found != axis.count) {
      arguments.reject(Text() << "dimension " << i << " of the output's volumes is " << axis.count << ", but there are "
                              << found << " windows");
    }
  }
  return volumes;
}

// The spans of a window, and the channel that it lies in.
struct Place {
  const float* channel;
  const std::uint32_t* strides;
  Span spans[AXES];
};

// Calls take(value, z, y, x) for the elements of a window that are inside the input.
template <typename Take>
void for_each_element(const Place& place, const Take& take) {
  const auto offset = [&](std::uint32_t axis, std::int64_t at) {
    return static_cast<std::uint32_t>(at) * place.strides[axis + 2];
  };
  for (std::int64_t z = place.spans[0].begin; z < place.spans[0].end; z += place.spans[0].step) {
    for (std::int64_t y = place.spans[1].begin; y < place.spans[1].end; y += place.spans[1].step) {
      for (std::int64_t x = place.spans[2].begin; x < place.spans[2].end; x += place.spans[2].step) {
        take(place.channel[offset(0, z) + offset(1, y) + offset(2, x)], z, y, x);
      }
    }
  }
}

// Calls reduce(window's place, its position in the output) for every window.
template <typename Reduce>
void for_each_window(const Volumes& volumes, const Reduce& reduce) {
  const View& in = volumes.in;
  const View& out = volumes.out;
  std::uint32_t at[RANK];
  for (at[0] = 0; at[0] < out.sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < out.sizes[1]; ++at[1]) {
      Place place{
          reinterpret_cast<const float*>(in.data) + at[0] * in.strides[0] + at[1] * in.strides[1], in.strides, {}};
      for (at[2] = 0; at[2] < out.sizes[2]; ++at[2]) {
        place.spans[0] = volumes.windows[0].span(at[2]);
        for (at[3] = 0; at[3] < out.sizes[3]; ++at[3]) {
          place.spans[1] = volumes.windows[1].span(at[3]);
          for (at[4] = 0; at[4] < out.sizes[4]; ++at[4]) {
            place.spans[2] = volumes.windows[2].span(at[4]);
            reduce(place, at);
          }
        }
      }
    }
  }
}

std::uint32_t offset_of(const View& view, const std::uint32_t* at) {
  std::uint32_t offset = 0;
  for (std::uint32_t i = 0; i < RANK; ++i) offset += at[i] * view.strides[i];
  return offset;
}

void take_maxima(const Arguments& arguments, const Volumes& volumes, std::uint32_t indices_at) {
  View indices = view_of(arguments.out(indices_at));
  if (indices.type != ScalarType::LONG) {
    arguments.reject(Text() << "indices are " << type_name(indices.type) << ", expected LONG");
  }
  if (indices.rank == RANK - 1) insert(arguments, indices, 0);
  bool fits = indices.rank == RANK;
  for (std::uint32_t i = 0; fits && i < RANK; ++i) fits = indices.sizes[i] == volumes.out.sizes[i];
  if (!fits) arguments.reject_shapes();
  const std::int64_t rows = volumes.in.sizes[3];
  const std::int64_t columns = volumes.in.sizes[4];
  const auto index_of = [&](std::int64_t z, std::int64_t y, std::int64_t x) { return (z * rows + y) * columns + x; };
  for_each_window(volumes, [&](const Place& place, const std::uint32_t* at) {
    float best = -INFINITY;
    std::int64_t best_at = index_of(place.spans[0].begin, place.spans[1].begin, place.spans[2].begin);
    for_each_element(place, [&](float value, std::int64_t z, std::int64_t y, std::int64_t x) {
      if (!(value > best || is_nan(value))) return;
      best = value;
      best_at = index_of(z, y, x);
    });
    reinterpret_cast<float*>(volumes.out.data)[offset_of(volumes.out, at)] = best;
    reinterpret_cast<std::int64_t*>(indices.data)[offset_of(indices, at)] = best_at;
  });
}

}  // namespace

void max_pool3d_with_indices(const Arguments& arguments) {
  enum : std::uint32_t { CEIL_MODE = DILATION + 1, OUT, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  take_maxima(arguments, take_windows(arguments, OUT, CEIL_MODE), INDICES);
}

}  // namespace ethos_hil
