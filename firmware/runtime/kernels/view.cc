#include "runtime/kernels/view.h"

#include <cstring>

#include "runtime/kernels/element.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

bool is_empty(const View& view) {
  for (std::uint32_t i = 0; i < view.rank; ++i) {
    if (view.sizes[i] == 0) return true;
  }
  return false;
}

void expect_same_sizes(const Arguments& arguments, const View& from, const View& to) {
  if (from.rank != to.rank) arguments.reject_shapes();
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    if (from.sizes[i] != to.sizes[i]) arguments.reject_shapes();
  }
}

// Walks through both views, as far as possible in the order of the second one's memory.
Walk make_walk(const View& from, const View& to) {
  std::uint8_t order[MAX_RANK];
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    std::uint32_t at = i;
    while (at > 0 && to.strides[order[at - 1]] < to.strides[i]) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = static_cast<std::uint8_t>(i);
  }
  Walk walk(2);
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    const std::uint32_t strides[] = {from.strides[order[i]], to.strides[order[i]]};
    walk.add(to.sizes[order[i]], strides);
  }
  return walk;
}

template <typename T>
void move_all(const View& from, const View& to) {
  const auto* source = reinterpret_cast<const T*>(from.data);
  auto* target = reinterpret_cast<T*>(to.data);
  Walk walk = make_walk(from, to);
  do {
    target[static_cast<std::int32_t>(walk.offset(1))] = source[static_cast<std::int32_t>(walk.offset(0))];
  } while (walk.next());
}

template <typename T>
void convert_all(const View& from, const View& to) {
  const Load<T> load = load_as<T>(from.type);
  const Store<T> store = store_as<T>(to.type);
  const std::uint32_t from_size = element_size(from.type);
  const std::uint32_t to_size = element_size(to.type);
  Walk walk = make_walk(from, to);
  do {
    store(to.data + walk.offset(1) * to_size, load(from.data + static_cast<std::int32_t>(walk.offset(0) * from_size)));
  } while (walk.next());
}

template <typename T>
void add_all(const View& from, const View& to) {
  const Load<T> load = load_as<T>(to.type);
  const Store<T> store = store_as<T>(to.type);
  const std::uint32_t size = element_size(to.type);
  Walk walk = make_walk(from, to);
  do {
    std::uint8_t* sum = to.data + walk.offset(1) * size;
    store(sum, plus(load(sum), load(from.data + static_cast<std::int32_t>(walk.offset(0) * size))));
  } while (walk.next());
}

template <typename T>
void fill_all(const View& to, T value) {
  const Store<T> store = store_as<T>(to.type);
  const std::uint32_t size = element_size(to.type);
  Walk walk = make_walk(to, to);
  do {
    store(to.data + walk.offset(1) * size, value);
  } while (walk.next());
}

}  // namespace

View view_of(const Tensor& tensor) {
  View view{tensor.data, tensor.type, tensor.rank, {}, {}};
  for (std::uint32_t i = 0; i < tensor.rank; ++i) view.sizes[i] = static_cast<std::uint32_t>(tensor.sizes[i]);
  element_strides(tensor, view.strides);
  return view;
}

void slice(View& view, std::uint32_t dimension, std::uint32_t start, std::uint32_t length, std::int32_t step) {
  if (length != 0) view.data += static_cast<std::int32_t>(start * view.strides[dimension] * element_size(view.type));
  view.sizes[dimension] = length;
  view.strides[dimension] *= static_cast<std::uint32_t>(step);
}

void select(View& view, std::uint32_t dimension, std::uint32_t index) {
  slice(view, dimension, index, 1, 1);
  --view.rank;
  for (std::uint32_t i = dimension; i < view.rank; ++i) {
    view.sizes[i] = view.sizes[i + 1];
    view.strides[i] = view.strides[i + 1];
  }
}

void insert(const Arguments& arguments, View& view, std::uint32_t dimension) {
  if (view.rank == MAX_RANK) arguments.reject(Text() << "more than " << MAX_RANK << " dimensions");
  for (std::uint32_t i = view.rank; i > dimension; --i) {
    view.sizes[i] = view.sizes[i - 1];
    view.strides[i] = view.strides[i - 1];
  }
  ++view.rank;
  view.sizes[dimension] = 1;
  view.strides[dimension] = 0;
}

void permute(View& view, const std::uint32_t* order) {
  const View before = view;
  for (std::uint32_t i = 0; i < view.rank; ++i) {
    view.sizes[i] = before.sizes[order[i]];
    view.strides[i] = before.strides[order[i]];
  }
}

void split(const Arguments& arguments, View& view, std::uint32_t dimension, std::uint32_t inner) {
  const std::uint32_t size = view.sizes[dimension];
  if (inner == 0 || size % inner != 0) {
    arguments.reject(Text() << "dimension " << dimension << " is " << size << ", no multiple of " << inner);
  }
  insert(arguments, view, dimension);
  view.sizes[dimension] = size / inner;
  view.sizes[dimension + 1] = inner;
  view.strides[dimension] = inner * view.strides[dimension + 1];
}

void expand(const Arguments& arguments, View& view, const std::uint32_t* sizes, std::uint32_t rank) {
  if (view.rank > rank) arguments.reject_shapes();
  while (view.rank < rank) insert(arguments, view, 0);
  for (std::uint32_t i = 0; i < rank; ++i) {
    if (view.sizes[i] == sizes[i]) continue;
    if (view.sizes[i] != 1) arguments.reject_shapes();
    view.sizes[i] = sizes[i];
    view.strides[i] = 0;
  }
}

void copy(const Arguments& arguments, const View& from, const View& to) {
  expect_same_sizes(arguments, from, to);
  const bool same = from.type == to.type;
  if (!same && (load_as<float>(from.type) == nullptr || store_as<float>(to.type) == nullptr)) {
    arguments.reject(Text() << type_name(from.type) << " to " << type_name(to.type) << " is not supported");
  }
  if (is_empty(to)) return;
  if (same) {
    switch (element_size(to.type)) {
      case 1:
        return move_all<std::uint8_t>(from, to);
      case 2:
        return move_all<std::uint16_t>(from, to);
      case 4:
        return move_all<std::uint32_t>(from, to);
      default:
        return move_all<std::uint64_t>(from, to);
    }
  }
  if (from.type == ScalarType::DOUBLE) return convert_all<double>(from, to);
  if (is_floating(from.type)) return convert_all<float>(from, to);
  convert_all<std::int64_t>(from, to);
}

void add(const Arguments& arguments, const View& from, const View& to) {
  expect_same_sizes(arguments, from, to);
  if (from.type != to.type || store_as<float>(to.type) == nullptr) {
    arguments.reject(Text() << type_name(from.type) << " to " << type_name(to.type) << " is not supported");
  }
  if (is_empty(to)) return;
  if (to.type == ScalarType::DOUBLE) return add_all<double>(from, to);
  if (is_floating(to.type)) return add_all<float>(from, to);
  add_all<std::int64_t>(from, to);
}

void fill(const Arguments& arguments, std::uint32_t position, const View& to) {
  if (arguments.kind(position) != ValueKind::DOUBLE) return fill_whole(arguments, arguments.integer(position), to);
  const double value = arguments.real(position);
  const auto whole = convert<std::int64_t>(value);
  const bool fits = !is_integral(to.type) || to.type == ScalarType::BOOL ||
                    (value > -0x1p63 && value < 0x1p63 && wrap(to.type, whole) == whole);
  if (!fits) arguments.reject(Text() << "argument " << position << " does not fit " << type_name(to.type));
  if (store_as<double>(to.type) == nullptr) arguments.reject(Text() << type_name(to.type) << " is not supported");
  if (!is_empty(to)) fill_all<double>(to, value);
}

void fill_whole(const Arguments& arguments, std::int64_t value, const View& to) {
  if (to.type != ScalarType::BOOL && is_integral(to.type) && wrap(to.type, value) != value) {
    arguments.reject(Text() << value << " does not fit " << type_name(to.type));
  }
  if (store_as<double>(to.type) == nullptr) arguments.reject(Text() << type_name(to.type) << " is not supported");
  if (!is_empty(to)) fill_all<std::int64_t>(to, value);
}

}  // namespace ethos_hil
