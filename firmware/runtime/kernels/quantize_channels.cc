#include "runtime/kernels/quantize_channels.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t {
  INPUT,
  SCALES,
  ZERO_POINTS,
  AXIS,
  QUANT_MIN,
  QUANT_MAX,
  DTYPE,
  OUT_DTYPE,
  OUT,
  ARGUMENTS = OUT + 2
};

// The scale and zero point of each channel.
class Channels {
 public:
  Channels(const Arguments& arguments, const Tensor& in) : scales_(arguments.tensor(SCALES)) {
    if (in.rank == 0) arguments.reject(Text() << "a number has no channels");
    axis_ = arguments.dimension(arguments.integer(AXIS), in.rank);
    count_ = static_cast<std::uint32_t>(in.sizes[axis_]);
    if (!is_floating(scales_.type) || load_as<double>(scales_.type) == nullptr) {
      arguments.reject(Text() << "scales are " << type_name(scales_.type));
    }
    check(arguments, scales_);
    if (arguments.is_none(ZERO_POINTS)) return;
    zero_points_ = &arguments.tensor(ZERO_POINTS);
    if (zero_points_->type != ScalarType::LONG && zero_points_->type != ScalarType::INT) {
      arguments.reject(Text() << "zero points are " << type_name(zero_points_->type));
    }
    check(arguments, *zero_points_);
  }

  std::uint32_t axis() const { return axis_; }
  std::uint32_t count() const { return count_; }
  double scale(std::uint32_t channel) const {
    return load_as<double>(scales_.type)(scales_.data + channel * element_size(scales_.type));
  }
  std::int64_t zero_point(std::uint32_t channel) const {
    if (zero_points_ == nullptr) return 0;
    return load_as<std::int64_t>(zero_points_->type)(zero_points_->data + channel * element_size(zero_points_->type));
  }

 private:
  void check(const Arguments& arguments, const Tensor& values) const {
    if (values.elements != count_) {
      arguments.reject(Text() << values.elements << " values for " << count_ << " channels");
    }
  }

  const Tensor& scales_;
  const Tensor* zero_points_ = nullptr;
  std::uint32_t axis_ = 0;
  std::uint32_t count_ = 0;
};

bool is_code(ScalarType type) {
  return type == ScalarType::CHAR || type == ScalarType::BYTE || type == ScalarType::SHORT || type == ScalarType::INT;
}

void check(const Arguments& arguments, const Tensor& in, const Tensor& out) {
  arguments.expect_same_shape(in, out);
  if (!is_code(in.type) || out.type != ScalarType::FLOAT) arguments.reject_types(in, out);
  if (arguments.integer(DTYPE) != static_cast<std::int64_t>(in.type)) {
    arguments.reject(Text() << "dtype argument is " << arguments.integer(DTYPE) << ", the tensor is "
                            << type_name(in.type));
  }
}

// Calls take(from, to, channel) for each pair of elements.
template <typename Take>
void for_each_pair(const Tensor& in, const Tensor& out, const Channels& channels, const Take& take) {
  if (in.elements == 0) return;
  const View from = view_of(in);
  const View to = view_of(out);
  Walk walk(2);
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    const std::uint32_t strides[] = {from.strides[i], to.strides[i]};
    if (i != channels.axis()) walk.add(from.sizes[i], strides);
  }
  const std::uint32_t in_size = element_size(in.type);
  const std::uint32_t out_size = element_size(out.type);
  for (std::uint32_t channel = 0; channel < channels.count(); ++channel) {
    const std::uint32_t begin = channel * from.strides[channels.axis()];
    const std::uint32_t target = channel * to.strides[channels.axis()];
    do {
      take(in.data + (begin + walk.offset(0)) * in_size, out.data + (target + walk.offset(1)) * out_size, channel);
    } while (walk.next());
  }
}

}  // namespace

void dequantize_per_channel(const Arguments& arguments) {
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  check(arguments, in, out);
  const Channels channels(arguments, in);
  const Load<std::int64_t> load = load_as<std::int64_t>(in.type);
  for_each_pair(in, out, channels, [&](const std::uint8_t* from, std::uint8_t* to, std::uint32_t channel) {
    const std::int64_t steps = minus(load(from), channels.zero_point(channel));
    *reinterpret_cast<float*>(to) = static_cast<float>(steps) * static_cast<float>(channels.scale(channel));
  });
}

}  // namespace ethos_hil
