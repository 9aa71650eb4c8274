#include "runtime/kernels/scan.h"

#include <cstring>

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

// Calls take(offsets) for every line along `dimension`, through several tensors that may differ in that dimension only.
template <typename Take>
void for_each_line(const View* views, std::uint32_t count, std::uint32_t dimension, const Take& take) {
  Walk walk(count);
  for (std::uint32_t i = 0; i < views[0].rank; ++i) {
    if (i == dimension) continue;
    if (views[0].sizes[i] == 0) return;
    std::uint32_t strides[Walk::TENSORS];
    for (std::uint32_t v = 0; v < count; ++v) strides[v] = views[v].strides[i];
    walk.add(views[0].sizes[i], strides);
  }
  do {
    take(walk);
  } while (walk.next());
}

template <typename T>
void add_up(const View& from, const View& to, std::uint32_t dimension) {
  const Load<T> load = load_as<T>(from.type);
  const Load<T> reload = load_as<T>(to.type);
  const Store<T> store = store_as<T>(to.type);
  const std::uint32_t from_size = element_size(from.type);
  const std::uint32_t to_size = element_size(to.type);
  const std::uint32_t length = from.rank == 0 ? 1 : from.sizes[dimension];
  const View views[] = {from, to};
  for_each_line(views, 2, dimension, [&](const Walk& walk) {
    T before{};
    for (std::uint32_t i = 0; i < length; ++i) {
      const T value = load(from.data + (walk.offset(0) + i * from.strides[dimension]) * from_size);
      std::uint8_t* place = to.data + (walk.offset(1) + i * to.strides[dimension]) * to_size;
      store(place, i == 0 ? value : plus(value, before));
      before = reload(place);
    }
  });
}

}  // namespace

void cumsum(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_shape(in, out);
  const bool known = load_as<float>(in.type) != nullptr && store_as<float>(out.type) != nullptr;
  if (!known || (is_floating(in.type) && !is_floating(out.type))) arguments.reject_types(in, out);
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  if (in.elements == 0) return;
  if (out.type == ScalarType::DOUBLE) return add_up<double>(view_of(in), view_of(out), dimension);
  if (is_floating(out.type)) return add_up<float>(view_of(in), view_of(out), dimension);
  add_up<std::int64_t>(view_of(in), view_of(out), dimension);
}

namespace {

// An element's rank in the order of its type's numbers, as an integer. NaN ranks above everything, infinity included.
std::int64_t order_of(ScalarType type, const std::uint8_t* element) {
  if (is_integral(type)) return load_as<std::int64_t>(type)(element);
  const double number = load_as<double>(type)(element);
  if (is_nan(number)) return INT64_MAX;
  std::int64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits < 0 ? -(bits & INT64_MAX) : bits;
}

// Elements along a line of one tensor, with their indices along the same line of another.
class Line {
 public:
  struct Item {
    std::uint64_t element;  // its bytes, first
    std::int64_t order;
    std::int64_t index;
  };

  Line(const View& values, const View& indices, std::uint32_t dimension, bool descending)
      : type_(values.type),
        size_(element_size(values.type)),
        values_(values.data),
        indices_(reinterpret_cast<std::int64_t*>(indices.data)),
        stride_(values.rank == 0 ? 0 : values.strides[dimension]),
        index_stride_(indices.rank == 0 ? 0 : indices.strides[dimension]),
        descending_(descending) {}

  void move_to(std::uint32_t offset, std::uint32_t index_offset) {
    offset_ = offset;
    index_offset_ = index_offset;
  }

  // Element i of the line, with `index` for its index.
  Item element(std::uint32_t i, std::int64_t index) const {
    Item item{0, 0, index};
    const std::uint8_t* place = values_ + (offset_ + i * stride_) * size_;
    std::memcpy(&item.element, place, size_);
    item.order = order_of(type_, place);
    return item;
  }
  Item get(std::uint32_t i) const { return element(i, indices_[index_offset_ + i * index_stride_]); }

  void set(std::uint32_t i, const Item& item) {
    std::memcpy(values_ + (offset_ + i * stride_) * size_, &item.element, size_);
    indices_[index_offset_ + i * index_stride_] = item.index;
  }

  // Whether `a` comes before `b`.
  bool before(const Item& a, const Item& b) const {
    return a.order == b.order ? a.index < b.index : (a.order < b.order) != descending_;
  }

  // Heap sort, which needs no memory. The last element in order is at the top.
  void sort(std::uint32_t count) {
    for (std::uint32_t i = count / 2; i > 0; --i) sink(i - 1, count);
    for (std::uint32_t left = count; left > 1; --left) {
      const Item top = get(0);
      set(0, get(left - 1));
      set(left - 1, top);
      sink(0, left - 1);
    }
  }

 private:
  void sink(std::uint32_t at, std::uint32_t count) {
    const Item item = get(at);
    for (std::uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && before(get(child), get(child + 1))) ++child;
      if (!before(item, get(child))) break;
      set(at, get(child));
      at = child;
    }
    set(at, item);
  }

  ScalarType type_;
  std::uint32_t size_;
  std::uint8_t* values_;
  std::int64_t* indices_;
  std::uint32_t stride_;
  std::uint32_t index_stride_;
  std::uint32_t offset_ = 0;
  std::uint32_t index_offset_ = 0;
  bool descending_;
};

std::uint32_t length_of(const View& view, std::uint32_t dimension) {
  return view.rank == 0 ? 1 : view.sizes[dimension];
}

void check_results(const Arguments& arguments, const Tensor& in, const Tensor& values, const Tensor& indices) {
  arguments.expect_same_type(in, values);
  arguments.expect_type(indices, ScalarType::LONG, "the tensor of indices");
  if (load_as<float>(in.type) == nullptr) arguments.reject_types(in, values);
  arguments.expect_same_shape(values, indices);
}

}  // namespace

void sort(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, DESCENDING, VALUES, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const View values = view_of(arguments.out(VALUES));
  const View indices = view_of(arguments.out(INDICES));
  check_results(arguments, in, arguments.out(VALUES), arguments.out(INDICES));
  arguments.expect_same_shape(in, arguments.out(VALUES));
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  if (in.elements == 0) return;
  copy(arguments, view_of(in), values);
  Line line(values, indices, dimension, arguments.integer(DESCENDING) != 0);
  const std::uint32_t length = length_of(values, dimension);
  const View views[] = {values, indices};
  for_each_line(views, 2, dimension, [&](const Walk& walk) {
    line.move_to(walk.offset(0), walk.offset(1));
    for (std::uint32_t i = 0; i < length; ++i) line.set(i, line.element(i, i));
    line.sort(length);
  });
}

void topk(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, K, DIMENSION, LARGEST, SORTED, VALUES, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const View values = view_of(arguments.out(VALUES));
  const View indices = view_of(arguments.out(INDICES));
  check_results(arguments, in, arguments.out(VALUES), arguments.out(INDICES));
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  const View from = view_of(in);
  const std::uint32_t length = length_of(from, dimension);
  const std::int64_t k = arguments.integer(K);
  if (k < 0 || k > std::int64_t{length}) arguments.reject(Text() << k << " of a dimension of " << length);
  if (values.rank != in.rank) arguments.reject_shapes();
  for (std::uint32_t i = 0; i < values.rank; ++i) {
    if (values.sizes[i] != (i == dimension ? k : in.sizes[i])) arguments.reject_shapes();
  }
  if (in.elements == 0) return;
  const bool descending = arguments.integer(LARGEST) != 0;
  Line source(from, indices, dimension, descending);
  Line picked(values, indices, dimension, descending);
  const View views[] = {from, values, indices};
  for_each_line(views, 3, dimension, [&](const Walk& walk) {
    source.move_to(walk.offset(0), 0);
    picked.move_to(walk.offset(1), walk.offset(2));
    // Each pass takes the first element in order after the one before.
    Line::Item last{};
    for (std::uint32_t i = 0; i < k; ++i) {
      Line::Item best{};
      bool found = false;
      for (std::uint32_t j = 0; j < length; ++j) {
        const Line::Item item = source.element(j, j);
        if (i > 0 && !source.before(last, item)) continue;
        if (found && !source.before(item, best)) continue;
        best = item;
        found = true;
      }
      picked.set(i, best);
      last = best;
    }
  });
}

}  // namespace ethos_hil
