#include "runtime/kernels/cortex_m_convolution.h"

#include <algorithm>

#include "runtime/kernels/cortex_m.h"
#include "runtime/kernels/cortex_m_dot.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t { INPUT, WEIGHT, BIAS, STRIDE, PADDING };

// Where the arguments are that the three operators have in different places.
struct Places {
  std::uint32_t dilation;
  std::uint32_t input_offset;
  std::uint32_t out;

  std::uint32_t output_offset() const { return input_offset + 1; }
  std::uint32_t multipliers() const { return input_offset + 2; }
  std::uint32_t shifts() const { return input_offset + 3; }
  std::uint32_t low() const { return input_offset + 4; }
  std::uint32_t high() const { return input_offset + 5; }
};
constexpr Places PLAIN{5, 6, 13};
constexpr Places DEPTHWISE{5, 7, 14};   // after the depth multiplier
constexpr Places TRANSPOSED{6, 7, 15};  // after output_padding; there are two scratch memories

struct Axis {
  std::int32_t stride;
  std::int32_t padding;
  std::int32_t dilation;
};

// How many channels of a depthwise convolution are computed together.
constexpr std::int32_t MANY = 16;
constexpr std::int32_t FEW = 4;

class Convolution {
 public:
  Convolution(const Arguments& arguments, Form form, const Places& places) : arguments_(arguments) {
    arguments.expect_count(places.out + 2);
    const Tensor& in = take_int8(arguments, INPUT);
    const Tensor& weight = take_plain(arguments, WEIGHT);
    Tensor& out = take_int8_out(arguments, places.out);
    in_ = image_of(arguments, in, form, "the input");
    out_ = image_of(arguments, out, form, "the output");
    if (weight.rank != 4 || in_.batches != out_.batches) arguments.reject_shapes();
    kernel_ = Image{weight.sizes[0], weight.sizes[1], weight.sizes[2], weight.sizes[3]};
    const auto axis = [&](std::uint32_t which) {
      return Axis{take_item(arguments, STRIDE, which, 1), take_item(arguments, PADDING, which, 0),
                  take_item(arguments, places.dilation, which, 1)};
    };
    y_ = axis(0);
    x_ = axis(1);
    const auto channels = static_cast<std::uint32_t>(out_.channels);
    bias_ = take_int32(arguments, BIAS, channels);
    multipliers_ = take_int32(arguments, places.multipliers(), channels);
    shifts_ = take_int32(arguments, places.shifts(), channels);
    check_scales();
    input_offset_ = take_offset(arguments, places.input_offset);
    output_offset_ = take_zero_point(arguments, places.output_offset());
    range_ = take_range(arguments, places.low(), places.high());
    from_ = int8_of(in);
    weights_ = int8_of(weight);
    to_ = int8_of(out);
  }

  void run_plain() {
    const std::int32_t per_group = kernel_.channels;
    if (kernel_.batches != out_.channels || per_group < 1 || in_.channels % per_group != 0 ||
        out_.channels % (in_.channels / per_group) != 0) {
      arguments_.reject_shapes();
    }
    expect_windows();
    const std::int32_t outs_per_group = out_.channels / (in_.channels / per_group);
    const std::int32_t kernel_size = kernel_.height * kernel_.width * per_group;
    for_each_position([&](std::int32_t y, std::int32_t x, const std::int8_t* image, std::int8_t* to) {
      for (std::int32_t c = 0; c < out_.channels; ++c) {
        const std::int8_t* weights = weights_ + c * kernel_size;
        const std::int8_t* group = image + c / outs_per_group * per_group;
        std::uint32_t sum = 0;
        for_each_tap(y, x, [&](std::int32_t at, std::int32_t tap) {
          sum += sum_of(group + at * in_.channels, weights + tap * per_group, per_group);
        });
        to[c] = finish(c, sum);
      }
    });
  }

  void run_depthwise(std::int32_t multiplier) {
    if (kernel_.batches != 1 || kernel_.channels != out_.channels || in_.batches != 1 ||
        out_.channels % multiplier != 0 || out_.channels / multiplier != in_.channels) {
      arguments_.reject_shapes();
    }
    expect_windows();
    // Channels that are neighbours in input and output, or those that are made of one channel of the input.
    const std::int32_t group = multiplier == 1 ? out_.channels : multiplier;
    for_each_position([&](std::int32_t y, std::int32_t x, const std::int8_t* image, std::int8_t* to) {
      for (std::int32_t start = 0; start < out_.channels; start += group) {
        std::int32_t c = start;
        for (; c + MANY <= start + group; c += MANY) depthwise<MANY>(y, x, image, multiplier, c, MANY, to);
        for (; c < start + group; c += FEW) {
          depthwise<FEW>(y, x, image, multiplier, c, std::min(FEW, start + group - c), to);
        }
      }
    });
  }

  void run_transposed(std::uint32_t output_padding_at) {
    if (kernel_.batches != out_.channels || kernel_.channels != in_.channels) arguments_.reject_shapes();
    for (std::uint32_t axis = 0; axis < 2; ++axis) {
      if (take_item(arguments_, output_padding_at, axis, 0) != 0 || y_.dilation != 1 || x_.dilation != 1) {
        arguments_.reject(Text() << "output_padding and dilation are not for CMSIS-NN: expected 0 and 1");
      }
    }
    expect_right();
    expect_spread(y_, in_.height, kernel_.height, out_.height);
    expect_spread(x_, in_.width, kernel_.width, out_.width);
    const std::int32_t kernel_size = kernel_.height * kernel_.width * in_.channels;
    for_each_position([&](std::int32_t y, std::int32_t x, const std::int8_t* image, std::int8_t* to) {
      for (std::int32_t c = 0; c < out_.channels; ++c) {
        to[c] = finish(c, scattered(y, x, image, weights_ + c * kernel_size));
      }
    });
  }

 private:
  void check_scales() const {
    if (multipliers_ == nullptr || shifts_ == nullptr) arguments_.reject(Text() << "there are no scales");
    for (std::int32_t c = 0; c < out_.channels; ++c) {
      if (multipliers_[c] == INT32_MIN || shifts_[c] < -31 || shifts_[c] > 30) {
        arguments_.reject(Text() << "channel " << c << " has multiplier " << multipliers_[c] << " and shift "
                                 << shifts_[c] << ", expected " << -INT32_MAX << " to " << INT32_MAX
                                 << " and -31 to 30");
      }
    }
  }

  void expect_windows() const {
    const auto windows = [](const Axis& axis, std::int32_t in, std::int32_t kernel) {
      const std::int64_t room = std::int64_t{in} + 2 * axis.padding - std::int64_t{axis.dilation} * (kernel - 1) - 1;
      return room < 0 ? 0 : room / axis.stride + 1;
    };
    if (windows(y_, in_.height, kernel_.height) != out_.height || windows(x_, in_.width, kernel_.width) != out_.width) {
      arguments_.reject_shapes();
    }
  }

  // CMSIS-NN has two ways. Where there are many channels and strides are small, it convolves with the kernel reversed.
  // Else it adds rows into memory for one kernel's height, from which it takes `stride` rows for each input row.
  void expect_right() const {
    constexpr std::int32_t FEW_CHANNELS = 16;
    const bool reversed = in_.channels > FEW_CHANNELS && y_.stride <= 2 && x_.stride <= 2;
    const std::int32_t rest = kernel_.height - y_.stride;
    const bool right = reversed ? y_.padding < kernel_.height && x_.padding < kernel_.width
                                : rest >= y_.padding && y_.padding % y_.stride == 0;
    if (!right) {
      arguments_.reject(Text() << "CMSIS-NN computes a kernel of " << kernel_.height << "x" << kernel_.width
                               << " with strides " << y_.stride << "x" << x_.stride << " and padding " << y_.padding
                               << "x" << x_.padding << " wrongly, or writes past the output");
    }
  }

  void expect_spread(const Axis& axis, std::int32_t in, std::int32_t kernel, std::int32_t out) const {
    if (std::int64_t{in - 1} * axis.stride - 2 * axis.padding + kernel != out) arguments_.reject_shapes();
  }

  // Calls `function` with each position of the output: its place, the image that it reads, and where its channels go.
  template <typename Function>
  void for_each_position(Function function) {
    std::int8_t* to = to_;
    for (std::int32_t n = 0; n < out_.batches; ++n) {
      const std::int8_t* image = from_ + n * in_.height * in_.width * in_.channels;
      for (std::int32_t y = 0; y < out_.height; ++y) {
        for (std::int32_t x = 0; x < out_.width; ++x, to += out_.channels) function(y, x, image, to);
      }
    }
  }

  // Calls `function` with each element of the kernel that is inside the input: its position there, and which element it
  // is. Outside of the input there are zeros.
  template <typename Function>
  void for_each_tap(std::int32_t y, std::int32_t x, Function function) const {
    for (std::int32_t ky = 0; ky < kernel_.height; ++ky) {
      const std::int32_t in_y = y * y_.stride - y_.padding + ky * y_.dilation;
      if (in_y < 0 || in_y >= in_.height) continue;
      for (std::int32_t kx = 0; kx < kernel_.width; ++kx) {
        const std::int32_t in_x = x * x_.stride - x_.padding + kx * x_.dilation;
        if (in_x >= 0 && in_x < in_.width) function(in_y * in_.width + in_x, ky * kernel_.width + kx);
      }
    }
  }

  // The sum of all that inputs add to an output of a transposed convolution.
  std::uint32_t scattered(std::int32_t y, std::int32_t x, const std::int8_t* image, const std::int8_t* weights) const {
    std::uint32_t sum = 0;
    for (std::int32_t ky = 0; ky < kernel_.height; ++ky) {
      const std::int32_t up = y + y_.padding - ky;
      if (up < 0 || up % y_.stride != 0 || up / y_.stride >= in_.height) continue;
      for (std::int32_t kx = 0; kx < kernel_.width; ++kx) {
        const std::int32_t left = x + x_.padding - kx;
        if (left < 0 || left % x_.stride != 0 || left / x_.stride >= in_.width) continue;
        const std::int32_t at = up / y_.stride * in_.width + left / x_.stride;
        sum += sum_of(image + at * in_.channels, weights + (ky * kernel_.width + kx) * in_.channels, in_.channels);
      }
    }
    return sum;
  }

  // Writes `count` channels of a position from channel `first` on.
  template <std::int32_t MOST>
  void depthwise(std::int32_t y, std::int32_t x, const std::int8_t* image, std::int32_t multiplier, std::int32_t first,
                 std::int32_t count, std::int8_t* to) const {
    ChannelSums<MOST / FEW> sums(count);
    const std::int8_t* values = image + first / multiplier;
    for_each_tap(y, x, [&](std::int32_t at, std::int32_t tap) {
      const std::int8_t* weights = weights_ + tap * out_.channels + first;
      const std::int8_t* here = values + at * in_.channels;
      if (multiplier == 1) {
        sums.add(Row{here, input_offset_}, weights);
      } else {
        sums.add(*here + input_offset_, weights);
      }
    });
    std::int32_t stored[MOST];
    sums.store(stored);
    for (std::int32_t c = 0; c < count; ++c) to[first + c] = finish(first + c, static_cast<std::uint32_t>(stored[c]));
  }

  std::uint32_t sum_of(const std::int8_t* values, const std::int8_t* weights, std::int32_t count) const {
    return dot(Row{values, input_offset_}, Row{weights, 0}, static_cast<std::uint32_t>(count));
  }

  std::int8_t finish(std::int32_t channel, std::uint32_t sum) const {
    const auto biased = static_cast<std::int32_t>(sum + static_cast<std::uint32_t>(bias_ ? bias_[channel] : 0));
    const std::int32_t scaled = requantize(biased, Scale{multipliers_[channel], shifts_[channel]});
    return range_.clamp(wrapping_sum(scaled, output_offset_));
  }

  const Arguments& arguments_;
  Image in_;
  Image out_;
  Image kernel_;  // its outermost and innermost dimensions are named batches and channels
  Axis y_;
  Axis x_;
  const std::int8_t* from_;
  const std::int8_t* weights_;
  std::int8_t* to_;
  const std::int32_t* bias_;
  const std::int32_t* multipliers_;
  const std::int32_t* shifts_;
  std::int32_t input_offset_;
  std::int32_t output_offset_;
  Range range_;
};

// Not one copy for each form.
[[gnu::noinline]] void convolve(const Arguments& arguments, Form form) {
  Convolution(arguments, form, PLAIN).run_plain();
}

[[gnu::noinline]] void convolve_depthwise(const Arguments& arguments, Form form) {
  constexpr std::uint32_t DEPTH_MULTIPLIER = 6;
  Convolution convolution(arguments, form, DEPTHWISE);
  convolution.run_depthwise(take_integer(arguments, DEPTH_MULTIPLIER, 1, INT32_MAX));
}

[[gnu::noinline]] void convolve_transposed(const Arguments& arguments, Form form) {
  constexpr std::uint32_t OUTPUT_PADDING = 5;
  Convolution(arguments, form, TRANSPOSED).run_transposed(OUTPUT_PADDING);
}

}  // namespace

void quantized_conv2d(const Arguments& arguments) { convolve(arguments, Form::CHANNELS_LAST); }
void quantized_conv2d_nhwc(const Arguments& arguments) { convolve(arguments, Form::NHWC); }
void quantized_depthwise_conv2d(const Arguments& arguments) { convolve_depthwise(arguments, Form::CHANNELS_LAST); }
void quantized_depthwise_conv2d_nhwc(const Arguments& arguments) { convolve_depthwise(arguments, Form::NHWC); }
void quantized_transpose_conv2d(const Arguments& arguments) { convolve_transposed(arguments, Form::CHANNELS_LAST); }
void quantized_transpose_conv2d_nhwc(const Arguments& arguments) { convolve_transposed(arguments, Form::NHWC); }

}  // namespace ethos_hil
