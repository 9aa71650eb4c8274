// A .bpte: a .pte with test cases for its methods. Each case has inputs and the expected outputs. Format:
// executorch/devtools/bundled_program/schema of the wheel.
#pragma once

#include <cstdint>

#include "runtime/bytes.h"
#include "runtime/method.h"

namespace bundled_program_flatbuffer {
struct BundledMethodTestSuite;
struct BundledProgram;
}  // namespace bundled_program_flatbuffer

namespace ethos_hil {

// The test cases of one method.
class TestCases {
 public:
  TestCases() = default;
  explicit TestCases(const bundled_program_flatbuffer::BundledMethodTestSuite& suite) : suite_(&suite) {}

  // Whether there is a suite of test cases, which may be empty.
  explicit operator bool() const { return suite_ != nullptr; }
  std::uint32_t count() const;

  // Ends in ERROR INPUT unless the method takes the inputs of each case.
  void check_inputs(const Method& method) const;

  // Puts the inputs of a case into the method's tensors.
  void set_inputs(std::uint32_t index, const Method& method) const;

  // Whether the method's outputs match the case by the tolerance of ExecuTorch's runner: floating point within 0.01 +
  // 0.01 x |output|, all else equal. Logs "Test_result: PASS", or "Test_result: FAIL" with a reason.
  bool judge(std::uint32_t index, Method& method) const;

 private:
  const bundled_program_flatbuffer::BundledMethodTestSuite* suite_ = nullptr;
};

// Ends in ERROR MISMATCH.
[[noreturn]] void fail_cases(std::uint32_t failed, std::uint32_t executed);

class Bundle {
 public:
  static bool is_bundle(Bytes file);

  // Ends in ERROR PROGRAM when `file` is incomplete or malformed.
  explicit Bundle(Bytes file);

  Bytes program() const;

  // Ends in ERROR PROGRAM when that method has none.
  TestCases test_cases(const char* method) const;

 private:
  const bundled_program_flatbuffer::BundledProgram* root_;
};

}  // namespace ethos_hil
