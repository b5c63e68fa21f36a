#include "openreg/version.h"

#include "api/arguments.h"
#include "api/entry.h"

orError_t orDriverGetVersion(int* version) {
  return openreg::api::call_anytime(__func__, [&]() -> openreg::Status {
    OPENREG_RETURN_IF_ERROR(openreg::api::require(version, "version"));
    *version = OPENREG_VERSION;
    return {};
  });
}
