#include "runtime/kernels/convolution.h"

#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t {
  INPUT,
  WEIGHT,
  BIAS,
  STRIDE,
  PADDING,
  DILATION,
  TRANSPOSED,
  OUTPUT_PADDING,
  GROUPS,
  OUT,
  ARGUMENTS = OUT + 2
};

// One of the up to three dimensions along which the kernel moves. All fields are below 2^31, so that no sum or product
// of two overflows.
struct Axis {
  std::int64_t in;
  std::int64_t out;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;

  // The position that element `step` of the kernel reads, when the kernel is at position `at`.
  std::int64_t place(std::int64_t at, std::int64_t step) const { return stride * at + dilation * step - padding; }
};

// Item `axis` of a list, which may have one item for all axes.
std::int64_t item(const Arguments& arguments, std::uint32_t position, std::uint32_t axis, std::int64_t low) {
  const std::uint32_t size = arguments.list_size(position);
  if (size == 0) arguments.reject(Text() << "argument " << position << " is empty");
  const std::int64_t found = arguments.list_item(position, axis < size ? axis : 0);
  if (found < low || found > INT32_MAX) {
    arguments.reject(Text() << "argument " << position << " has an item " << found << ", expected " << low << " to "
                            << INT32_MAX);
  }
  return found;
}

class Convolution {
 public:
  explicit Convolution(const Arguments& arguments)
      : in_(view_of(arguments.tensor(INPUT))),
        weight_(view_of(arguments.tensor(WEIGHT))),
        out_(view_of(arguments.out(OUT))) {
    const bool floats =
        in_.type == ScalarType::FLOAT && weight_.type == ScalarType::FLOAT && out_.type == ScalarType::FLOAT;
    if (!floats) arguments.reject(Text() << "a tensor is not FLOAT");
    const std::uint32_t rank = in_.rank;
    if (rank < 3 || rank > 5 || weight_.rank != rank || out_.rank != rank) arguments.reject_shapes();
    transposed_ = arguments.integer(TRANSPOSED) != 0;
    take_channels(arguments);
    for (View* view : {&in_, &weight_, &out_}) {
      while (view->rank < 5) insert(arguments, *view, 2);
    }
    // The last axes are those that there are.
    const std::uint32_t absent = 5 - rank;
    const auto axis = [&](std::uint32_t which) {
      return which < absent ? Axis{1, 1, 1, 1, 0, 1} : take_axis(arguments, 2 + which, which - absent);
    };
    z_ = axis(0);
    y_ = axis(1);
    x_ = axis(2);
  }

  void run() const {
    for (std::uint32_t n = 0; n < out_.sizes[0]; ++n) {
      for (std::uint32_t c = 0; c < out_.sizes[1]; ++c) {
        const float bias = bias_ == nullptr ? 0.0f : bias_[c];
        if (transposed_) {
          spread(n, c, bias);
        } else {
          gather(n, c, bias);
        }
      }
    }
  }

 private:
  void take_channels(const Arguments& arguments) {
    const std::int64_t groups = arguments.integer(GROUPS);
    const std::uint32_t in_channels = in_.sizes[1];
    const std::uint32_t out_channels = out_.sizes[1];
    if (groups < 1 || groups > INT32_MAX) arguments.reject(Text() << groups << " groups");
    const auto g = static_cast<std::uint32_t>(groups);
    in_group_ = in_channels / g;
    out_group_ = out_channels / g;
    // The shape of a weight is [out, in of a group, ...]; transposed, [in, out of a group, ...].
    const std::uint32_t outer = transposed_ ? in_channels : out_channels;
    const std::uint32_t inner = transposed_ ? out_group_ : in_group_;
    if (in_channels % g != 0 || out_channels % g != 0 || weight_.sizes[0] != outer || weight_.sizes[1] != inner ||
        in_.sizes[0] != out_.sizes[0]) {
      arguments.reject_shapes();
    }
    if (arguments.is_none(BIAS)) return;
    const Tensor& bias = arguments.tensor(BIAS);
    if (bias.type != ScalarType::FLOAT || bias.rank != 1 || bias.elements != out_channels) {
      arguments.reject(Text() << "the bias is not a vector of " << out_channels << " floats");
    }
    bias_ = reinterpret_cast<const float*>(bias.data);
  }

  Axis take_axis(const Arguments& arguments, std::uint32_t dimension, std::uint32_t which) const {
    Axis axis{};
    axis.in = in_.sizes[dimension];
    axis.out = out_.sizes[dimension];
    axis.kernel = weight_.sizes[dimension];
    axis.stride = item(arguments, STRIDE, which, 1);
    axis.padding = item(arguments, PADDING, which, 0);
    axis.dilation = arguments.list_size(DILATION) == 0 ? 1 : item(arguments, DILATION, which, 1);
    const std::int64_t reach = axis.dilation * (axis.kernel - 1) + 1;
    std::int64_t expected;
    if (transposed_) {
      const std::int64_t further =
          arguments.list_size(OUTPUT_PADDING) == 0 ? 0 : item(arguments, OUTPUT_PADDING, which, 0);
      expected = (axis.in - 1) * axis.stride - 2 * axis.padding + reach + further;
    } else {
      const std::int64_t room = axis.in + 2 * axis.padding - reach;
      expected = room < 0 ? -1 : room / axis.stride + 1;
    }
    if (axis.kernel < 1 || expected != axis.out) {
      const std::uint32_t named = dimension - (5 - arguments.tensor(OUT).rank);
      arguments.reject(Text() << "the output's dimension " << named << " is " << axis.out << ", expected " << expected);
    }
    return axis;
  }

  static const float* at(const View& view, std::uint32_t first, std::uint32_t second) {
    return reinterpret_cast<const float*>(view.data) + first * view.strides[0] + second * view.strides[1];
  }
  static std::uint32_t offset(const View& view, std::int64_t z, std::int64_t y, std::int64_t x) {
    return static_cast<std::uint32_t>(z) * view.strides[2] + static_cast<std::uint32_t>(y) * view.strides[3] +
           static_cast<std::uint32_t>(x) * view.strides[4];
  }
  float* plane(std::uint32_t n, std::uint32_t c) const {
    return reinterpret_cast<float*>(out_.data) + n * out_.strides[0] + c * out_.strides[1];
  }

  void gather(std::uint32_t n, std::uint32_t c, float bias) const {
    float* to = plane(n, c);
    const std::uint32_t first = c / out_group_ * in_group_;
    for (std::int64_t z = 0; z < z_.out; ++z) {
      for (std::int64_t y = 0; y < y_.out; ++y) {
        for (std::int64_t x = 0; x < x_.out; ++x) {
          float sum = 0.0f;
          for (std::uint32_t i = 0; i < in_group_; ++i)
            sum = add_window(sum, at(in_, n, first + i), at(weight_, c, i), z, y, x);
          to[offset(out_, z, y, x)] = bias_ == nullptr ? sum : sum + bias;
        }
      }
    }
  }

  float add_window(float sum, const float* from, const float* weight, std::int64_t z, std::int64_t y,
                   std::int64_t x) const {
    for (std::int64_t w = 0; w < z_.kernel; ++w) {
      const std::int64_t in_z = z_.place(z, w);
      if (in_z < 0 || in_z >= z_.in) continue;
      for (std::int64_t v = 0; v < y_.kernel; ++v) {
        const std::int64_t in_y = y_.place(y, v);
        if (in_y < 0 || in_y >= y_.in) continue;
        for (std::int64_t u = 0; u < x_.kernel; ++u) {
          const std::int64_t in_x = x_.place(x, u);
          if (in_x < 0 || in_x >= x_.in) continue;
          sum += from[offset(in_, in_z, in_y, in_x)] * weight[offset(weight_, w, v, u)];
        }
      }
    }
    return sum;
  }

  void spread(std::uint32_t n, std::uint32_t c, float bias) const {
    float* to = plane(n, c);
    for (std::int64_t z = 0; z < z_.out; ++z) {
      for (std::int64_t y = 0; y < y_.out; ++y) {
        for (std::int64_t x = 0; x < x_.out; ++x) to[offset(out_, z, y, x)] = bias;
      }
    }
    const std::uint32_t first = c / out_group_ * in_group_;
    for (std::int64_t z = 0; z < z_.in; ++z) {
      for (std::int64_t y = 0; y < y_.in; ++y) {
        for (std::int64_t x = 0; x < x_.in; ++x) {
          for (std::uint32_t i = first; i < first + in_group_; ++i) {
            spread_one(to, at(in_, n, i)[offset(in_, z, y, x)], at(weight_, i, c % out_group_), z, y, x);
          }
        }
      }
    }
  }

  void spread_one(float* to, float value, const float* weight, std::int64_t z, std::int64_t y, std::int64_t x) const {
    for (std::int64_t w = 0; w < z_.kernel; ++w) {
      const std::int64_t out_z = z_.place(z, w);
      if (out_z < 0 || out_z >= z_.out) continue;
      for (std::int64_t v = 0; v < y_.kernel; ++v) {
        const std::int64_t out_y = y_.place(y, v);
        if (out_y < 0 || out_y >= y_.out) continue;
        for (std::int64_t u = 0; u < x_.kernel; ++u) {
          const std::int64_t out_x = x_.place(x, u);
          if (out_x < 0 || out_x >= x_.out) continue;
          to[offset(out_, out_z, out_y, out_x)] += value * weight[offset(weight_, w, v, u)];
        }
      }
    }
  }

  View in_;
  View weight_;
  View out_;
  Axis z_{};
  Axis y_{};
  Axis x_{};
  const float* bias_ = nullptr;
  bool transposed_ = false;
  std::uint32_t in_group_ = 0;
  std::uint32_t out_group_ = 0;
};

}  // namespace

void convolution(const Arguments& arguments) {
  arguments.expect_count(ARGUMENTS);
  Convolution(arguments).run();
}

}  // namespace ethos_hil
