#include "runtime/kernels/pad.h"

#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

void copy_slice(const Arguments& arguments, const View& area, std::uint32_t dimension, std::uint32_t from,
                std::uint32_t to) {
  View source = area;
  View target = area;
  slice(source, dimension, from, 1, 1);
  slice(target, dimension, to, 1, 1);
  copy(arguments, source, target);
}

void pad(const Arguments& arguments, bool reflect) {
  enum : std::uint32_t { INPUT, WIDTHS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const View out = view_of(arguments.out(OUT));
  const std::uint32_t count = arguments.list_size(WIDTHS);
  if (in.type != out.type || in.rank != out.rank || count % 2 != 0 || count / 2 > in.rank) arguments.reject_shapes();
  View area = out;
  for (std::uint32_t i = 0; i < count / 2; ++i) {
    const std::uint32_t dimension = in.rank - 1 - i;
    const std::int64_t before = arguments.list_item(WIDTHS, 2 * i);
    const std::int64_t after = arguments.list_item(WIDTHS, 2 * i + 1);
    const std::int64_t size = in.sizes[dimension];
    const std::int64_t most = reflect ? size - 1 : INT32_MAX;
    if (before < 0 || after < 0 || before > most || after > most || size == 0 ||
        size + before + after != std::int64_t{out.sizes[dimension]}) {
      arguments.reject(Text() << "widths " << before << " and " << after << " for a dimension of " << size);
    }
    slice(area, dimension, static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(size), 1);
  }
  copy(arguments, in, area);
  // One dimension after the other: `area` is what is filled already, and grows along each.
  for (std::uint32_t i = 0; i < count / 2; ++i) {
    const std::uint32_t dimension = in.rank - 1 - i;
    const auto before = static_cast<std::uint32_t>(arguments.list_item(WIDTHS, 2 * i));
    const auto after = static_cast<std::uint32_t>(arguments.list_item(WIDTHS, 2 * i + 1));
    const std::uint32_t end = before + in.sizes[dimension];
    // Back to the whole dimension, with the others as they are.
    area.data -= before * area.strides[dimension] * element_size(area.type);
    area.sizes[dimension] = out.sizes[dimension];
    for (std::uint32_t k = 0; k < before; ++k) {
      copy_slice(arguments, area, dimension, reflect ? 2 * before - k : before, k);
    }
    for (std::uint32_t k = 0; k < after; ++k) {
      copy_slice(arguments, area, dimension, reflect ? end - 2 - k : end - 1, end + k);
    }
  }
}

}  // namespace

void reflection_pad(const Arguments& arguments) { pad(arguments, true); }
void replication_pad(const Arguments& arguments) { pad(arguments, false); }

}  // namespace ethos_hil
