#include "runtime/bundle.h"

#include <cmath>
#include <cstring>

#include "link/report.h"
#include "runtime/kernels/element.h"
#include "runtime/schema.h"

// Included after schema.h, which adapts flatbuffers to this machine.
#include "bundled_program_schema_generated.h"

namespace ethos_hil {

namespace {

namespace bpte = bundled_program_flatbuffer;

constexpr flatbuffers::uoffset_t MAX_DEPTH = 16;
constexpr flatbuffers::uoffset_t MAX_TABLES = 1'000'000;
constexpr std::uint32_t IDENTIFIER_END = 8;  // root offset, then "BP08"
constexpr std::uint32_t PROGRAM_ALIGNMENT = 16;

// examples/arm/executor_runner has these as floats.
constexpr double RELATIVE_TOLERANCE = 0.01f;
constexpr double ABSOLUTE_TOLERANCE = 0.01f;

const bpte::BundledMethodTestCase& test_case(const bpte::BundledMethodTestSuite& suite, std::uint32_t index) {
  return *suite.test_cases()->Get(index);
}

// Whether `given` has the type, shape and layout of `tensor`, and all of its bytes.
bool has_form_of(const bpte::Tensor* given, const Tensor& tensor) {
  if (given == nullptr || given->scalar_type() != tensor.type || count(given->sizes()) != tensor.rank ||
      count(given->dim_order()) != tensor.rank || count(given->data()) != tensor.nbytes) {
    return false;
  }
  Tensor form = tensor;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    const std::uint8_t dimension = given->dim_order()->Get(i);
    if (given->sizes()->Get(i) != tensor.sizes[i] || dimension >= tensor.rank) return false;
    seen |= 1u << dimension;
  }
  if (tensor.rank == 0) return true;
  form.dim_order = given->dim_order()->data();
  return seen == (1u << tensor.rank) - 1 && same_layout(form, tensor);
}

// Whether `given` is the value that the program itself has.
bool is_held(const bpte::Value& given, const Value& held) {
  switch (held.kind) {
    case ValueKind::NONE:
      return true;
    case ValueKind::INT:
      return given.val_as_Int() != nullptr && given.val_as_Int()->int_val() == held.integer;
    case ValueKind::BOOL:
      return given.val_as_Bool() != nullptr && given.val_as_Bool()->bool_val() == held.boolean;
    case ValueKind::DOUBLE: {
      if (given.val_as_Double() == nullptr) return false;
      const double number = given.val_as_Double()->double_val();
      return std::memcmp(&number, &held.real, sizeof number) == 0;
    }
    default:
      return false;
  }
}

bool is_close(double expected, double found) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::fabs(expected - found) <= ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * std::fabs(found);
}

bool same_element(ScalarType type, const std::uint8_t* expected, const std::uint8_t* found) {
  switch (type) {
    case ScalarType::HALF:
    case ScalarType::FLOAT:
    case ScalarType::DOUBLE: {
      const Load<double> load = load_as<double>(type);
      return is_close(load(expected), load(found));
    }
    default:
      return std::memcmp(expected, found, element_size(type)) == 0;
  }
}

// Appends what is wrong with an output, if anything.
bool check_output(std::uint32_t index, const bpte::Value& expected, const Value& found, Text& problem) {
  if (found.kind != ValueKind::TENSOR) {
    if (is_held(expected, found)) return true;
    problem << "output " << index << " is neither a tensor nor the value expected";
    return false;
  }
  const bpte::Tensor* reference = expected.val_as_Tensor();
  if (found.tensor.data == nullptr || !has_form_of(reference, found.tensor)) {
    problem << "output " << index << " has not the type, shape and layout expected";
    return false;
  }
  std::uint32_t differing = 0;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < found.tensor.elements; ++i) {
    const std::uint32_t at = i * element_size(found.tensor.type);
    if (same_element(found.tensor.type, reference->data()->data() + at, found.tensor.data + at)) continue;
    if (differing++ == 0) first = i;
  }
  if (differing == 0) return true;
  problem << "output " << index << ": " << differing << " of " << found.tensor.elements
          << " elements differ from those expected, the first is element " << first;
  return false;
}

}  // namespace

std::uint32_t TestCases::count() const { return ethos_hil::count(suite_->test_cases()); }

void TestCases::check_inputs(const Method& method) const {
  for (std::uint32_t index = 0; index < count(); ++index) {
    const auto* inputs = test_case(*suite_, index).inputs();
    if (ethos_hil::count(inputs) != method.input_count()) {
      fail(ErrorKind::INPUT, Text() << "test case " << index << " of the bundle has " << ethos_hil::count(inputs)
                                    << " inputs, the method takes " << method.input_count());
    }
    for (std::uint32_t i = 0; i < method.input_count(); ++i) {
      const bpte::Value& given = *inputs->Get(i);
      const Value& value = method.input(i);
      const bool fits =
          value.kind == ValueKind::TENSOR ? has_form_of(given.val_as_Tensor(), value.tensor) : is_held(given, value);
      if (!fits) {
        fail(ErrorKind::INPUT,
             Text() << "input " << i << " of test case " << index << " of the bundle is not "
                    << (value.kind == ValueKind::TENSOR ? "of the type, shape and layout the method takes"
                                                        : "the value the program was exported with"));
      }
    }
  }
}

void TestCases::set_inputs(std::uint32_t index, const Method& method) const {
  for (std::uint32_t i = 0; i < method.input_count(); ++i) {
    const Value& value = method.input(i);
    if (value.kind != ValueKind::TENSOR || value.tensor.nbytes == 0) continue;
    const bpte::Tensor* given = test_case(*suite_, index).inputs()->Get(i)->val_as_Tensor();
    std::memcpy(value.tensor.data, given->data()->data(), value.tensor.nbytes);
  }
}

bool TestCases::judge(std::uint32_t index, Method& method) const {
  const auto* expected = test_case(*suite_, index).expected_outputs();
  Text problem;
  bool passed = ethos_hil::count(expected) == method.output_count();
  if (!passed) {
    problem << "there are " << ethos_hil::count(expected) << " expected outputs, the method has "
            << method.output_count();
  }
  for (std::uint32_t i = 0; passed && i < method.output_count(); ++i) {
    passed = check_output(i, *expected->Get(i), method.output(i), problem);
  }
  Text line;
  line << "TEST: BundleIO index[" << index << "] Test_result: " << (passed ? "PASS" : "FAIL");
  if (!passed) line << " (" << Characters{problem.data(), problem.size()} << ")";
  log(passed ? LogLevel::INFO : LogLevel::ERROR, line);
  return passed;
}

void fail_cases(std::uint32_t failed, std::uint32_t executed) {
  fail(ErrorKind::MISMATCH, Text() << failed << " of " << executed
                                   << " executions of the bundle's test cases gave other outputs than expected");
}

bool Bundle::is_bundle(Bytes file) {
  return file.size >= IDENTIFIER_END && bpte::BundledProgramBufferHasIdentifier(file.data);
}

Bundle::Bundle(Bytes file) : root_(nullptr) {
  flatbuffers::Verifier verifier(file.data, file.size, MAX_DEPTH, MAX_TABLES);
  if (file.size >= FLATBUFFERS_MAX_BUFFER_SIZE || !bpte::VerifyBundledProgramBuffer(verifier)) {
    fail(ErrorKind::PROGRAM,
         Text() << "bundle of " << file.size << " bytes is truncated or corrupt: its flatbuffer does not verify");
  }
  root_ = bpte::GetBundledProgram(file.data);
  check_alignment(program().data, PROGRAM_ALIGNMENT, "program of the bundle");
}

Bytes Bundle::program() const {
  const auto* program = root_->program();
  return {program == nullptr ? nullptr : program->data(), count(program)};
}

TestCases Bundle::test_cases(const char* method) const {
  const auto* suites = root_->method_test_suites();
  for (std::uint32_t i = 0; i < count(suites); ++i) {
    if (std::strcmp(text(suites->Get(i)->method_name()), method) == 0) return TestCases(*suites->Get(i));
  }
  fail(ErrorKind::PROGRAM, Text() << "bundle has no test cases of method '" << method << "'");
}

}  // namespace ethos_hil
