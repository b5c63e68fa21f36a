// What the tests of failures share: the list of calls that report earlier
// failures, and the list of those that don't.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/support.h"
#include "support/work.h"

namespace openreg::test {

struct NamedCall {
  std::string name;
  std::function<orError_t()> call;
};

// Objects of the current device for the calls to work on. They go at the end of
// the scope, or with a reset of their device after `release`.
class FailureBench {
 public:
  FailureBench();

  // Every call that "reports earlier failures", on a stream other than the one
  // that the tests let fail.
  std::vector<NamedCall> reporting_calls();
  // Makes all of them, and expects the device to be well.
  void expect_no_failure();
  // Calls that must work on a device with a failure, and report nothing.
  std::vector<NamedCall> silent_calls();

  // Forgets the objects: a reset has taken them or will.
  void release();

  orStream_t stream = nullptr;
  orEvent_t event = nullptr;  // recorded on `stream`, and reached
  char* block = nullptr;      // kSize bytes of device memory
  static constexpr size_t kSize = 64;

  ~FailureBench();
  FailureBench(const FailureBench&) = delete;
  FailureBench& operator=(const FailureBench&) = delete;
};

}  // namespace openreg::test
