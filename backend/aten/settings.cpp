#include "backend/aten/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "backend/executor/settings.h"

namespace torch_openreg {

uint64_t current_settings() {
  const at::Context& context = at::globalContext();
  Settings settings;
  settings.default_dtype =
      static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  settings.threads = static_cast<uint16_t>(at::get_num_threads());
  settings.deterministic = context.deterministicAlgorithms();
  settings.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  settings.fill_uninitialized = context.deterministicFillUninitializedMemory();
  settings.mkldnn = context.userEnabledMkldnn();
  settings.gradients = c10::GradMode::is_enabled();
#if defined(__SSE2__)
  settings.flush_denormals = _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON;
#endif
  return settings.pack();
}

}  // namespace torch_openreg
