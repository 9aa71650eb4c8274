#include "runtime/kernels/norm.h"

namespace ethos_hil {

namespace {

// The floats of a per-channel argument.
const float* per_channel(const Arguments& arguments, std::uint32_t position, std::uint32_t channels) {
  const Tensor& found = arguments.tensor(position);
  if (found.type != ScalarType::FLOAT || found.rank != 1 || found.elements != channels) {
    arguments.reject(Text() << "argument " << position << " is not a vector of " << channels << " floats");
  }
  return reinterpret_cast<const float*>(found.data);
}

}  // namespace

namespace {

// What a batch norm applies to each channel.
struct Channels {
  std::uint32_t count;
  const float* weights;  // null for none
  const float* biases;
};

Channels take_channels(const Arguments& arguments, const Tensor& in, const Tensor& out, std::uint32_t weight_at) {
  if (in.type != ScalarType::FLOAT || out.type != ScalarType::FLOAT) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if (in.rank < 2) arguments.reject(Text() << "input has less than 2 dimensions");
  if (!same_shape(in, out)) arguments.reject(Text() << "input and output differ in shape");
  if (!same_layout(in, out)) arguments.reject(Text() << "input and output differ in dim_order");
  const auto count = static_cast<std::uint32_t>(in.sizes[1]);
  const auto vector = [&](std::uint32_t position) {
    return arguments.is_none(position) ? nullptr : per_channel(arguments, position, count);
  };
  return {count, vector(weight_at), vector(weight_at + 1)};
}

float inverse_deviation(float variance, double epsilon) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(variance) + epsilon));
}

// In every layout, memory has runs of one channel, channel after channel, repeatedly.
std::uint32_t run_of(const Tensor& in) {
  std::uint32_t strides[MAX_RANK];
  element_strides(in, strides);
  return strides[1];
}

// Normalises the elements from `begin` on, `run` of one channel.
void normalise(const Tensor& in, Tensor& out, const Channels& channels, std::uint32_t channel, float mean, float scale,
               std::uint32_t begin, std::uint32_t run) {
  const float weight = channels.weights == nullptr ? 1.0f : channels.weights[channel];
  const float bias = channels.biases == nullptr ? 0.0f : channels.biases[channel];
  const auto* from = reinterpret_cast<const float*>(in.data);
  auto* to = reinterpret_cast<float*>(out.data);
  for (std::uint32_t i = begin; i < begin + run; ++i) to[i] = (from[i] - mean) * scale * weight + bias;
}

}  // namespace

void batch_norm(const Arguments& arguments) {
  enum : std::uint32_t {
    INPUT,
    WEIGHT,
    BIAS,
    MEAN,
    VARIANCE,
    MOMENTUM,
    EPSILON,
    OUT,
    SAVED_MEAN,
    SAVED_DEVIATION,
    ARGUMENTS = SAVED_DEVIATION + 2
  };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  const Channels channels = take_channels(arguments, in, out, WEIGHT);
  const float* means = per_channel(arguments, MEAN, channels.count);
  const float* variances = per_channel(arguments, VARIANCE, channels.count);
  const double epsilon = arguments.real(EPSILON);
  const std::uint32_t run = run_of(in);
  std::uint32_t channel = 0;
  for (std::uint32_t begin = 0; begin < in.elements; begin += run) {
    const float scale = inverse_deviation(variances[channel], epsilon);
    normalise(in, out, channels, channel, means[channel], scale, begin, run);
    if (++channel == channels.count) channel = 0;
  }
}

void batch_norm_no_stats(const Arguments& arguments) {
  enum : std::uint32_t {
    INPUT,
    WEIGHT,
    BIAS,
    TRAINING,
    MOMENTUM,
    EPSILON,
    OUT,
    SAVED_MEAN,
    SAVED_DEVIATION,
    ARGUMENTS = SAVED_DEVIATION + 2
  };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  const Channels channels = take_channels(arguments, in, out, WEIGHT);
  if (in.elements == 0) arguments.reject(Text() << "the input is empty");
  const Tensor& saved_mean = arguments.out(SAVED_MEAN);
  const Tensor& saved_deviation = arguments.out(SAVED_DEVIATION);
  for (const Tensor* saved : {&saved_mean, &saved_deviation}) {
    if (saved->type != ScalarType::FLOAT || (saved->elements != 0 && saved->elements != channels.count)) {
      arguments.reject(Text() << "the saved statistics have " << saved->elements << " elements");
    }
  }
  const double epsilon = arguments.real(EPSILON);
  const std::uint32_t run = run_of(in);
  const std::uint32_t step = run * channels.count;
  const auto count = static_cast<double>(in.elements / channels.count);
  const auto* from = reinterpret_cast<const float*>(in.data);
  for (std::uint32_t channel = 0; channel < channels.count; ++channel) {
    const auto add_all = [&](double shift, bool square) {
      double total = 0;
      for (std::uint32_t begin = channel * run; begin < in.elements; begin += step) {
        for (std::uint32_t i = begin; i < begin + run; ++i) {
          const double value = static_cast<double>(from[i]) - shift;
          total += square ? value * value : value;
        }
      }
      return total;
    };
    const double mean = add_all(0, false) / count;
    const double deviation = 1.0 / __builtin_sqrt(add_all(mean, true) / count + epsilon);
    const auto scale = static_cast<float>(deviation);
    for (std::uint32_t begin = channel * run; begin < in.elements; begin += step) {
      normalise(in, out, channels, channel, static_cast<float>(mean), scale, begin, run);
    }
    if (saved_mean.elements != 0) reinterpret_cast<float*>(saved_mean.data)[channel] = static_cast<float>(mean);
    if (saved_deviation.elements != 0) reinterpret_cast<float*>(saved_deviation.data)[channel] = scale;
  }
}

namespace {

// Contiguous floats, `count` of them.
float* floats(const Arguments& arguments, std::uint32_t position, std::uint32_t count) {
  const Tensor& found = arguments.tensor(position);
  if (found.type != ScalarType::FLOAT || found.elements != count || !is_contiguous(found)) {
    arguments.reject(Text() << "argument " << position << " is not " << count << " contiguous floats");
  }
  return reinterpret_cast<float*>(found.data);
}

float* optional_floats(const Arguments& arguments, std::uint32_t position, std::uint32_t count) {
  return arguments.is_none(position) ? nullptr : floats(arguments, position, count);
}

struct Sums {
  float sum;
  float squares;
};

Sums add_up(const float* values, std::uint32_t count) {
  Sums sums{};
  for (std::uint32_t i = 0; i < count; ++i) sums.sum += values[i];
  for (std::uint32_t i = 0; i < count; ++i) sums.squares += values[i] * values[i];
  return sums;
}

}  // namespace

void layer_norm(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SHAPE, WEIGHT, BIAS, EPSILON, OUT, MEAN, DEVIATION, ARGUMENTS = DEVIATION + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  arguments.expect_same_shape(in, arguments.out(OUT));
  const std::uint32_t dimensions = arguments.list_size(SHAPE);
  bool fits = dimensions > 0 && dimensions <= in.rank;
  std::uint32_t width = 1;
  for (std::uint32_t i = 0; fits && i < dimensions; ++i) {
    const std::int32_t size = in.sizes[in.rank - dimensions + i];
    fits = arguments.list_item(SHAPE, i) == size;
    width *= static_cast<std::uint32_t>(size);
  }
  if (!fits) arguments.reject_shapes();
  if (in.elements == 0) arguments.reject(Text() << "the input is empty");
  const std::uint32_t rows = in.elements / width;
  const float* from = floats(arguments, INPUT, in.elements);
  const float* weights = optional_floats(arguments, WEIGHT, width);
  const float* biases = optional_floats(arguments, BIAS, width);
  arguments.out(MEAN);
  arguments.out(DEVIATION);
  float* to = floats(arguments, OUT, in.elements);
  float* means = floats(arguments, MEAN, rows);
  float* deviations = floats(arguments, DEVIATION, rows);
  const auto epsilon = static_cast<float>(arguments.real(EPSILON));
  for (std::uint32_t row = 0; row < rows; ++row, from += width, to += width) {
    const Sums sums = add_up(from, width);
    const float mean = sums.sum / static_cast<float>(width);
    const float variance = sums.squares / static_cast<float>(width) - mean * mean;
    const float deviation = __builtin_sqrtf(variance + epsilon);
    for (std::uint32_t i = 0; i < width; ++i) {
      const float weight = weights == nullptr ? 1.0f : weights[i];
      const float bias = biases == nullptr ? 0.0f : biases[i];
      to[i] = (from[i] - mean) / deviation * weight + bias;
    }
    means[row] = mean;
    deviations[row] = static_cast<float>(1.0 / static_cast<double>(deviation));
  }
}

}  // namespace ethos_hil
