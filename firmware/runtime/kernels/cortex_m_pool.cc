#include "runtime/kernels/cortex_m_pool.h"

#include "runtime/kernels/cortex_m.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t { INPUT, KERNEL_SIZE, STRIDE, PADDING };

// The windows along one dimension.
struct Axis {
  std::int32_t in;
  std::int32_t out;
  std::int32_t kernel;
  std::int32_t stride;
  std::int32_t padding;

  std::int32_t first(std::int32_t window) const {
    const std::int32_t start = window * stride - padding;
    return start < 0 ? 0 : start;
  }
  std::int32_t past(std::int32_t window) const {
    const std::int32_t end = window * stride - padding + kernel;
    return end < in ? end : in;
  }
};

Axis take_axis(const Arguments& arguments, std::uint32_t which, std::int32_t in, std::int32_t out, bool ceil_mode) {
  const Axis axis{in, out, take_item(arguments, KERNEL_SIZE, which, 1), take_item(arguments, STRIDE, which, 1),
                  take_item(arguments, PADDING, which, 0)};
  const std::int32_t room = in + 2 * axis.padding - axis.kernel;
  std::int32_t windows = room < 0 ? 0 : room / axis.stride + 1;
  if (ceil_mode && room >= 0 && room % axis.stride != 0) ++windows;
  // A further window may extend past the padding's end, but must start before it.
  if (ceil_mode && (windows - 1) * axis.stride >= in + axis.padding) --windows;
  if (windows != out) arguments.reject_shapes();
  for (std::int32_t window = 0; window < out; ++window) {
    if (axis.first(window) >= axis.past(window)) {
      arguments.reject(Text() << "window " << window << " has no element of the input");
    }
  }
  return axis;
}

// Calls `combine(in, elements, out)` for each channel of each window: the first element of the window's rows is at
// `in`.
template <typename Combine>
void for_each_window(const Arguments& arguments, Form form, std::uint32_t out_at, bool ceil_mode, Combine combine) {
  arguments.expect_count(out_at + 2);
  const Tensor& in = take_int8(arguments, INPUT);
  Tensor& out = take_int8_out(arguments, out_at);
  const Image from = image_of(arguments, in, form, "the input");
  const Image to = image_of(arguments, out, form, "the output");
  if (from.batches != to.batches || from.channels != to.channels) arguments.reject_shapes();
  const Axis rows = take_axis(arguments, 0, from.height, to.height, ceil_mode);
  const Axis columns = take_axis(arguments, 1, from.width, to.width, ceil_mode);
  std::int8_t* result = int8_of(out);
  for (std::int32_t n = 0; n < to.batches; ++n) {
    const std::int8_t* image = int8_of(in) + n * from.height * from.width * from.channels;
    for (std::int32_t y = 0; y < to.height; ++y) {
      for (std::int32_t x = 0; x < to.width; ++x) {
        for (std::int32_t c = 0; c < to.channels; ++c) {
          auto sum = combine.start();
          for (std::int32_t row = rows.first(y); row < rows.past(y); ++row) {
            const std::int8_t* at = image + (row * from.width + columns.first(x)) * from.channels + c;
            for (std::int32_t i = columns.first(x); i < columns.past(x); ++i, at += from.channels) sum.add(*at);
          }
          *result++ = combine.finish(sum);
        }
      }
    }
  }
}

struct Average {
  struct Sum {
    std::int32_t total = 0;
    std::int32_t count = 0;
    void add(std::int8_t value) {
      total += value;
      ++count;
    }
  };
  Sum start() const { return {}; }
  std::int8_t finish(const Sum& sum) const {
    const std::int32_t half = sum.count / 2;
    return static_cast<std::int8_t>((sum.total > 0 ? sum.total + half : sum.total - half) / sum.count);
  }
};

struct Largest {
  struct Sum {
    std::int8_t best = INT8_MIN;
    void add(std::int8_t value) { best = value > best ? value : best; }
  };
  Range range;
  Sum start() const { return {}; }
  std::int8_t finish(const Sum& sum) const { return range.clamp(sum.best); }
};

// Not one copy for each form.
[[gnu::noinline]] void average(const Arguments& arguments, Form form) {
  enum : std::uint32_t { CEIL_MODE = PADDING + 1, OUT = 9 };
  for_each_window(arguments, form, OUT, arguments.integer(CEIL_MODE) != 0, Average{});
}

[[gnu::noinline]] void largest(const Arguments& arguments, Form form) {
  enum : std::uint32_t { DILATION = PADDING + 1, CEIL_MODE, INPUT_ZERO, OUTPUT_ZERO, LOW, HIGH, OUT };
  const bool dilated = take_item(arguments, DILATION, 0, 1) != 1 || take_item(arguments, DILATION, 1, 1) != 1;
  if (dilated || arguments.integer(CEIL_MODE) != 0) {
    arguments.reject(Text() << "dilation and ceil_mode are not for CMSIS-NN: expected 1 and false");
  }
  if (take_zero_point(arguments, INPUT_ZERO) != take_zero_point(arguments, OUTPUT_ZERO)) {
    arguments.reject(Text() << "input and output have different zero points");
  }
  for_each_window(arguments, form, OUT, false, Largest{take_range(arguments, LOW, HIGH)});
}

}  // namespace

void quantized_avg_pool2d(const Arguments& arguments) { average(arguments, Form::CHANNELS_LAST); }
void quantized_avg_pool2d_nhwc(const Arguments& arguments) { average(arguments, Form::NHWC); }
void quantized_max_pool2d(const Arguments& arguments) { largest(arguments, Form::CHANNELS_LAST); }
void quantized_max_pool2d_nhwc(const Arguments& arguments) { largest(arguments, Form::NHWC); }

}  // namespace ethos_hil
