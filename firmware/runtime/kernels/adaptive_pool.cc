#include "runtime/kernels/adaptive_pool.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

struct Window {
  std::uint32_t begin;
  std::uint32_t end;
};

// Window `at` of `windows` over `size` elements.
Window window_at(std::uint64_t at, std::uint32_t windows, std::uint32_t size) {
  return {static_cast<std::uint32_t>(at * size / windows),
          static_cast<std::uint32_t>(((at + 1) * size + windows - 1) / windows)};
}

}  // namespace

void adaptive_max_pool2d(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZE, OUT, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  View in = view_of(arguments.tensor(INPUT));
  View out = view_of(arguments.out(OUT));
  View indices = view_of(arguments.out(INDICES));
  if (in.type != ScalarType::FLOAT || out.type != ScalarType::FLOAT || indices.type != ScalarType::LONG) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if (in.rank == 3) {
    for (View* view : {&in, &out, &indices}) insert(arguments, *view, 0);
  }
  bool fits = in.rank == 4 && out.rank == 4 && indices.rank == 4 && in.sizes[2] > 0 && in.sizes[3] > 0;
  for (std::uint32_t i = 0; fits && i < 4; ++i) {
    fits = indices.sizes[i] == out.sizes[i] && (i >= 2 || out.sizes[i] == in.sizes[i]);
  }
  if (!fits) arguments.reject_shapes();
  for (std::uint32_t n = 0; n < out.sizes[0]; ++n) {
    for (std::uint32_t c = 0; c < out.sizes[1]; ++c) {
      const float* plane = reinterpret_cast<const float*>(in.data) + n * in.strides[0] + c * in.strides[1];
      for (std::uint32_t v = 0; v < out.sizes[2]; ++v) {
        const Window rows = window_at(v, out.sizes[2], in.sizes[2]);
        for (std::uint32_t u = 0; u < out.sizes[3]; ++u) {
          const Window columns = window_at(u, out.sizes[3], in.sizes[3]);
          float best = plane[rows.begin * in.strides[2] + columns.begin * in.strides[3]];
          std::int64_t best_at = std::int64_t{rows.begin} * in.sizes[3] + columns.begin;
          for (std::uint32_t y = rows.begin; y < rows.end; ++y) {
            for (std::uint32_t x = columns.begin; x < columns.end; ++x) {
              const float value = plane[y * in.strides[2] + x * in.strides[3]];
              if (!(value > best || is_nan(value))) continue;
              best = value;
              best_at = std::int64_t{y} * in.sizes[3] + x;
            }
          }
          reinterpret_cast<float*>(
              out.data)[n * out.strides[0] + c * out.strides[1] + v * out.strides[2] + u * out.strides[3]] = best;
          reinterpret_cast<std::int64_t*>(indices.data)[n * indices.strides[0] + c * indices.strides[1] +
                                                        v * indices.strides[2] + u * indices.strides[3]] = best_at;
        }
      }
    }
  }
}

}  // namespace ethos_hil
