// The in-process driver: the device is threads of this process.
#include "core/hardware.h"

#include <memory>

#include "core/runtime.h"
#include "core/system_memory.h"
#include "execution/execution_places.h"
#include "execution/loaded_module.h"
#include "execution/worker_queue.h"

namespace openreg {

namespace {

class InprocessHardware final : public Hardware {
 public:
  explicit InprocessHardware(Context& context)
      : context_(context), places_(usable_processors()) {}

  std::shared_ptr<Queue> create_queue(int priority) override {
    return std::make_shared<WorkerQueue>(context_, places_, priority);
  }

  Status load_module(const char* path,
                     std::shared_ptr<ModuleImage>* image) override {
    OPENREG_RETURN_IF_ERROR(load_shared_object(path, path, image));
    Runtime::stop_before_later_exit_handlers();
    return {};
  }

  std::shared_ptr<ModuleImage> builtin_module() override {
    return make_builtin_image();
  }

  int places() const override { return places_.count(); }
  bool can_access_peers() const override { return true; }

 private:
  Context& context_;
  ExecutionPlaces places_;
};

}  // namespace

std::unique_ptr<Hardware> make_inprocess_hardware(Context& context) {
  return std::make_unique<InprocessHardware>(context);
}

}  // namespace openreg
