#include "runtime/kernels/norm.h"

namespace ethos_hil {

namespace {

// The floats of a per-channel argument.
const float* per_channel(const Arguments& arguments, std::uint32_t position, std::uint32_t channels) {
  const Tensor& found = arguments.tensor(position);
  if (found.type != ScalarType::FLOAT || found.rank != 1 || found.elements != channels) {
    arguments.reject(Text() << "argument " << position << " is no vector of " << channels << " floats");
  }
  return reinterpret_cast<const float*>(found.data);
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
  if (in.type != ScalarType::FLOAT || out.type != ScalarType::FLOAT) {
    arguments.reject(Text() << type_name(in.type) << " to " << type_name(out.type) << " is not supported");
  }
  if (in.rank < 2) arguments.reject(Text() << "input has less than 2 dimensions");
  if (!same_shape(in, out)) arguments.reject(Text() << "input and output differ in shape");
  if (!same_layout(in, out)) arguments.reject(Text() << "input and output differ in dim_order");

  const auto channels = static_cast<std::uint32_t>(in.sizes[1]);
  const float* weights = arguments.is_none(WEIGHT) ? nullptr : per_channel(arguments, WEIGHT, channels);
  const float* biases = arguments.is_none(BIAS) ? nullptr : per_channel(arguments, BIAS, channels);
  const float* means = per_channel(arguments, MEAN, channels);
  const float* variances = per_channel(arguments, VARIANCE, channels);
  const double epsilon = arguments.real(EPSILON);

  // In memory, whatever the layout: runs of one channel, channel after channel, again and again.
  std::uint32_t strides[MAX_RANK];
  element_strides(in, strides);
  const std::uint32_t run = strides[1];
  const auto* from = reinterpret_cast<const float*>(in.data);
  auto* to = reinterpret_cast<float*>(out.data);
  std::uint32_t channel = 0;
  for (std::uint32_t begin = 0; begin < in.elements; begin += run) {
    const auto scale = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(variances[channel]) + epsilon));
    const float weight = weights == nullptr ? 1.0f : weights[channel];
    const float bias = biases == nullptr ? 0.0f : biases[channel];
    for (std::uint32_t i = begin; i < begin + run; ++i) to[i] = (from[i] - means[channel]) * scale * weight + bias;
    if (++channel == channels) channel = 0;
  }
}

}  // namespace ethos_hil
