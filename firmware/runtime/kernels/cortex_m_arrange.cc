#include "runtime/kernels/cortex_m_arrange.h"

#include <cstring>

#include "runtime/kernels/cortex_m.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t MOST = 4;

void expect_rank(const Arguments& arguments, const Tensor& in, const Tensor& out) {
  if (in.rank == 0 || in.rank > MOST || out.rank != in.rank) {
    arguments.reject(Text() << "input has " << std::uint32_t{in.rank} << " dimensions, output "
                            << std::uint32_t{out.rank} << "; expected 1 to " << MOST << " of both");
  }
}

}  // namespace

void quantized_transpose(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, ORDER, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& in = take_plain(arguments, INPUT);
  Tensor& out = take_plain_out(arguments, OUT);
  expect_rank(arguments, in, out);
  std::uint32_t order[MOST] = {};
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    const std::int64_t dimension = i < arguments.list_size(ORDER) ? arguments.list_item(ORDER, i) : -1;
    if (dimension >= 0 && dimension < in.rank) seen |= 1u << dimension;
    order[i] = static_cast<std::uint32_t>(dimension);
  }
  if (arguments.list_size(ORDER) != in.rank || seen != (1u << in.rank) - 1) {
    arguments.reject(Text() << "argument " << ORDER << " does not order " << std::uint32_t{in.rank} << " dimensions");
  }
  if (in.rank == 2 && order[0] == 0) {
    arguments.reject(Text() << "two dimensions stay in order, but CMSIS-NN swaps them");
  }
  View from = view_of(in);
  permute(from, order);
  copy(arguments, from, view_of(out));
}

void quantized_pad(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, BEFORE, AFTER, VALUE, OUT, COUNT = OUT + 2 };
  arguments.expect_count(COUNT);
  const Tensor& in = take_int8(arguments, INPUT);
  Tensor& out = take_int8_out(arguments, OUT);
  expect_rank(arguments, in, out);
  View from = view_of(in);
  View to = view_of(out);
  // Upstream takes an image for one in channels_last wherever its sizes allow that.
  if (is_channels_last(in) && is_channels_last(out)) {
    constexpr std::uint32_t ORDER[] = {0, 2, 3, 1};
    permute(from, ORDER);
    permute(to, ORDER);
  } else if (is_channels_last(in) || !is_contiguous(in) || !is_contiguous(out)) {
    arguments.reject(Text() << "input and output are neither contiguous nor in channels_last");
  }
  std::memset(out.data, take_integer(arguments, VALUE, INT8_MIN, INT8_MAX), out.elements);
  View inside = to;
  for (std::uint32_t i = 0; i < MOST; ++i) {
    const auto width = [&](std::uint32_t position) {
      if (arguments.list_size(position) != MOST)
        arguments.reject(Text() << "argument " << position << " has not 4 items");
      return arguments.list_item(position, i);
    };
    const std::int64_t before = width(BEFORE);
    const std::int64_t after = width(AFTER);
    const std::uint32_t absent = MOST - in.rank;
    if (i < absent && before == 0 && after == 0) continue;
    if (i < absent || before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX ||
        before + from.sizes[i - absent] + after != to.sizes[i - absent]) {
      arguments.reject_shapes();
    }
    slice(inside, i - absent, static_cast<std::uint32_t>(before), from.sizes[i - absent], 1);
  }
  copy(arguments, from, inside);
}

}  // namespace ethos_hil
