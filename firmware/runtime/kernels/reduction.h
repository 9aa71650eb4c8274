// The order in which a reduction reads its input: which elements become one, and where that is written.
#pragma once

#include "runtime/kernels/arguments.h"
#include "runtime/kernels/element.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

// The dimensions that an argument names (an int, or a list of them), as bits; all for none or an empty list.
std::uint32_t take_dimensions(const Arguments& arguments, std::uint32_t position, std::uint32_t rank);

class Reduction {
 public:
  // Ends in reject() unless the output has the input's shape without the `reduced` dimensions, or with 1 for them.
  Reduction(const Arguments& arguments, const Tensor& in, const Tensor& out, std::uint32_t reduced, bool keep);

  // The number of elements that become one.
  std::uint32_t number() const { return number_; }
  // Whether that is the last dimension alone.
  bool last_alone() const { return last_alone_; }

  // Calls take(first, out) for every element of the output: the offset of its first element in the input, and its own
  // offset, in elements.
  template <typename Take>
  void for_each_output(const Take& take) {
    if (empty_) return;
    do {
      take(kept_.offset(0), kept_.offset(1));
    } while (kept_.next());
  }

  // Calls take(value) for the elements that become one.
  template <typename T, typename Take>
  void for_each_element(std::uint32_t first, const Take& take) {
    const Load<T> load = load_as<T>(in_.type);
    const std::uint32_t size = element_size(in_.type);
    if (number_ == 0) return;
    do {
      take(load(in_.data + (first + inner_.offset(0)) * size));
    } while (inner_.next());
  }

 private:
  const Tensor& in_;
  Walk kept_{2};
  Walk inner_{1};
  std::uint32_t number_ = 1;
  bool last_alone_;
  bool empty_ = false;
};

}  // namespace ethos_hil
