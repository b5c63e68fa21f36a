#include "openreg/module.h"

#include <span>

#include "api/arguments.h"
#include "api/entry.h"
#include "api/versioned_struct.h"

using namespace openreg;
using namespace openreg::api;

namespace {

Payload to_payload(const void* args, size_t size) {
  return {static_cast<const std::byte*>(args), size};
}

// Finds and checks what every launch needs.
Status check_launch(orFunction_t handle, const void* args, size_t size,
                    orStream_t stream_handle, FunctionRef* function,
                    StreamRef* stream) {
  if (size > kMaxKernelArguments) {
    return failure(orErrorInvalidValue,
                   "size=%zu: a launch carries at most %zu bytes of arguments",
                   size, kMaxKernelArguments);
  }
  if (size > 0) OPENREG_RETURN_IF_ERROR(require(args, "args"));
  OPENREG_RETURN_IF_ERROR(find_function(handle, function));
  OPENREG_RETURN_IF_ERROR(stream->find(stream_handle));
  const Context& context = (*function)->context;
  if (&context != &(*stream)->context()) {
    return failure(orErrorInvalidDevice,
                   "function '%s' belongs to device %d and the stream to "
                   "device %d",
                   (*function)->kernel->name().c_str(), context.device(),
                   (*stream)->context().device());
  }
  return {};
}

Status launch(orFunction_t handle, const void* args, size_t size,
              orStream_t stream_handle, Urgency urgency) {
  FunctionRef function;
  StreamRef stream;
  OPENREG_RETURN_IF_ERROR(
      check_launch(handle, args, size, stream_handle, &function, &stream));
  return stream->submit(LaunchCommand{function->kernel}, to_payload(args, size),
                        urgency);
}

// The size of orLaunchConfig_t in the first version, for ever.
constexpr size_t kFirstLaunchConfig = 24;
static_assert(sizeof(orLaunchConfig_t) >= kFirstLaunchConfig);

Status read_config(const orLaunchConfig_t* given, orLaunchConfig_t* config) {
  OPENREG_RETURN_IF_ERROR(require(given, "config"));
  OPENREG_RETURN_IF_ERROR(
      read_struct(given, "config", kFirstLaunchConfig, config));
  return require_flags(config->flags, orLaunchCheap | orLaunchShort);
}

bool is_cheap(const orLaunchConfig_t& config) {
  return (config.flags & orLaunchCheap) != 0;
}

Urgency urgency_of(const orLaunchConfig_t& config) {
  if (is_cheap(config)) return Urgency::kCheap;
  return (config.flags & orLaunchShort) != 0 ? Urgency::kShort
                                             : Urgency::kQueued;
}

Status launch_and_wait(orFunction_t function, const void* args, size_t size,
                       orStream_t stream, Urgency urgency, void* reply,
                       size_t capacity, size_t* reply_size) {
  if (capacity > 0) OPENREG_RETURN_IF_ERROR(require(reply, "reply"));
  FunctionRef found_function;
  StreamRef found;
  OPENREG_RETURN_IF_ERROR(
      check_launch(function, args, size, stream, &found_function, &found));
  Completion completion;
  completion.wants_reply = true;
  completion.reply = {static_cast<std::byte*>(reply), capacity};
  OPENREG_RETURN_IF_ERROR(found->run(LaunchCommand{found_function->kernel},
                                     to_payload(args, size), completion,
                                     urgency));
  if (reply_size != nullptr) *reply_size = completion.reply_size;
  return {};
}

}  // namespace

orError_t orModuleLoad(orModule_t* module, const char* path) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(module, "module"));
    OPENREG_RETURN_IF_ERROR(require(path, "path"));
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    std::shared_ptr<ModuleImage> image;
    OPENREG_RETURN_IF_ERROR(context->hardware().load_module(path, &image));
    void* handle = nullptr;
    OPENREG_RETURN_IF_ERROR(
        add_object(Runtime::get().modules(),
                   std::make_shared<Module>(*context, std::move(image),
                                            /*is_builtin=*/false),
                   *context, &handle));
    *module = static_cast<orModule_t>(handle);
    return {};
  });
}

orError_t orModuleGetBuiltin(orModule_t* module) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(module, "module"));
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    void* handle = nullptr;
    OPENREG_RETURN_IF_ERROR(Runtime::get().builtin_module(*context, &handle));
    *module = static_cast<orModule_t>(handle);
    return {};
  });
}

orError_t orModuleUnload(orModule_t module) {
  return call(__func__, [&]() -> Status {
    {
      ModuleRef found;
      OPENREG_RETURN_IF_ERROR(find_module(module, &found));
      if (found->is_builtin()) {
        return failure(orErrorInvalidValue,
                       "module is the built-in one, which can't be unloaded");
      }
    }
    Runtime& runtime = Runtime::get();
    const auto unloaded = runtime.modules().remove(module);
    if (unloaded == nullptr) return bad_handle("module", "module", module);
    runtime.functions().remove_if([module](const Function& function) {
      return function.module == module;
    });
    unloaded->context().synchronize();
    return {};
  });
}

orError_t orModuleGetFunction(orFunction_t* function, orModule_t module,
                              const char* name) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(function, "function"));
    OPENREG_RETURN_IF_ERROR(require(name, "name"));
    ModuleRef found;
    OPENREG_RETURN_IF_ERROR(find_module(module, &found));
    void* handle = found->known_function(name);
    if (handle == nullptr) {
      std::shared_ptr<const Kernel> kernel;
      OPENREG_RETURN_IF_ERROR(found->image().find(name, &kernel));
      Context& context = found->context();
      HandleTable<Function>& functions = Runtime::get().functions();
      void* added = nullptr;
      OPENREG_RETURN_IF_ERROR(add_object(
          functions,
          std::make_shared<Function>(context, std::move(kernel), module),
          context, &added));
      handle = found->add_function(name, added);
      if (handle != added) functions.remove(added);
    }
    *function = static_cast<orFunction_t>(handle);
    return {};
  });
}

orError_t orLaunchKernel(orFunction_t function, const void* args, size_t size,
                         orStream_t stream) {
  return call(__func__, [&]() -> Status {
    return launch(function, args, size, stream, Urgency::kQueued);
  });
}

orError_t orLaunchKernelEx(const orLaunchConfig_t* config,
                           orFunction_t function, const void* args,
                           size_t size) {
  return call(__func__, [&]() -> Status {
    orLaunchConfig_t known;
    OPENREG_RETURN_IF_ERROR(read_config(config, &known));
    return launch(function, args, size, known.stream, urgency_of(known));
  });
}

orError_t orLaunchKernelSync(orFunction_t function, const void* args,
                             size_t size, orStream_t stream, void* reply,
                             size_t replyCapacity, size_t* replySize) {
  return call(__func__, [&]() -> Status {
    return launch_and_wait(function, args, size, stream, Urgency::kWaited,
                           reply, replyCapacity, replySize);
  });
}

orError_t orLaunchKernelSyncEx(const orLaunchConfig_t* config,
                               orFunction_t function, const void* args,
                               size_t size, void* reply, size_t replyCapacity,
                               size_t* replySize) {
  return call(__func__, [&]() -> Status {
    orLaunchConfig_t known;
    OPENREG_RETURN_IF_ERROR(read_config(config, &known));
    return launch_and_wait(function, args, size, known.stream,
                           is_cheap(known) ? Urgency::kCheap : Urgency::kWaited,
                           reply, replyCapacity, replySize);
  });
}
