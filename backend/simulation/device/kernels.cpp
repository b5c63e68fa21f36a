// The executor: ATen on device memory, as a kernel module of the driver. It is
// loaded on the device's side and reaches memory through its context alone.
#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "backend/simulation/common/failure.h"
#include "backend/simulation/device/attach.h"
#include "backend/simulation/device/copy_kernel.h"
#include "backend/simulation/device/decode.h"
#include "backend/simulation/device/describe.h"
#include "backend/simulation/device/generators.h"
#include "backend/simulation/device/operators.h"
#include "backend/simulation/device/reply.h"
#include "openreg/kernel.h"

using namespace torch_openreg;
using namespace torch_openreg::device;

namespace {

// Runs `body` and turns what it throws into a failure of the kernel, which
// `describe` names.
template <typename Body, typename Describe>
orError_t guarded(orKernelContext* ctx, Body body, Describe describe) {
  try {
    return body();
  } catch (const IllegalAddress&) {
    return orErrorIllegalAddress;  // the context knows the reason
  } catch (const std::invalid_argument& error) {
    return orKernelFail(ctx, orErrorInvalidValue, error.what());
  } catch (const std::bad_alloc&) {
    return orKernelFail(ctx, orErrorOutOfMemory, "no host memory");
  } catch (const std::exception& error) {
    return orKernelFail(ctx, orErrorAssert,
                        describe_failure(error, describe()).c_str());
  }
}

template <typename Body>
orError_t guarded(orKernelContext* ctx, Body body) {
  return guarded(ctx, body, [] { return std::string(); });
}

template <typename Run>
orError_t with_record(orKernelContext* ctx, Run run) {
  record::Reader reader({static_cast<const record::Word*>(ctx->args),
                         ctx->size / sizeof(record::Word)});
  if (ctx->size % sizeof(record::Word) != 0 || !reader.open()) {
    return orKernelFail(ctx, orErrorInvalidValue, "a malformed launch record");
  }
  return guarded(
      ctx, [&] { return run(ctx, reader); },
      [&] {
        record::Reader again = reader;
        return again.open() ? describe_call(again) : std::string();
      });
}

}  // namespace

OPENREG_MODULE;

OPENREG_KERNEL(attach) {
  return guarded(ctx, [&] { return attach(ctx); });
}

OPENREG_KERNEL(run_operator) {
  return with_record(ctx, [](orKernelContext* context, record::Reader& reader) {
    const std::string_view name = reader.name();
    orKernelNote(context, name.data(), name.size());
    return execute_record(context, reader);
  });
}

OPENREG_KERNEL(fetch_outputs) { return with_record(ctx, fetch_outputs); }

OPENREG_KERNEL(drop_outputs) {
  return guarded(ctx, [&] { return drop_outputs(ctx); });
}

OPENREG_KERNEL(fetch_reply) {
  return guarded(ctx, [&] { return fetch_reply(ctx); });
}

// Fails with the text that it is given: what an operator has thrown that
// replied.
OPENREG_KERNEL(report_failure) {
  const std::string text(static_cast<const char*>(ctx->args), ctx->size);
  return orKernelFail(ctx, orErrorAssert, text.c_str());
}

OPENREG_KERNEL(copy_tensor) {
  return guarded(ctx, [&] { return execute_copy(ctx); });
}

OPENREG_KERNEL(set_generator) {
  return guarded(ctx, [&] { return set_generator(ctx); });
}

OPENREG_KERNEL(get_generator) {
  return guarded(ctx, [&] { return get_generator(ctx); });
}

OPENREG_KERNEL(drop_generator) {
  return guarded(ctx, [&] { return drop_generator(ctx); });
}
