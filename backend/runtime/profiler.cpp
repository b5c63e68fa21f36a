// The place that PyTorch keeps for a profiler of the device. There is none yet:
// without an observer PyTorch would call a null pointer.
#include <c10/util/Exception.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>

#include <unordered_set>

#include "backend/runtime/registration.h"

namespace torch_openreg {

namespace {

void refuse(const torch::profiler::impl::ProfilerConfig& /*config*/,
            const std::unordered_set<at::RecordScope>& /*scopes*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "ProfilerState.PRIVATEUSE1 needs a profiler of the device, and 'openreg' "
      "has none yet. torch.profiler.profile() records the operators as the "
      "host calls them, and torch.openreg.Event(enable_timing=True) measures "
      "time on the device. See docs/troubleshooting.md under \"A profile "
      "without the device\".");
}

}  // namespace

void register_profiler() {
  torch::profiler::impl::pushPRIVATEUSE1CallbacksStub
      .set_privateuse1_dispatch_ptr(&refuse);
}

}  // namespace torch_openreg
