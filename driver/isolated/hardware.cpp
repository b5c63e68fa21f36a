#include "isolated/hardware.h"

#include <utility>

#include "core/context.h"
#include "core/runtime.h"
#include "core/system_memory.h"
#include "isolated/remote_module.h"
#include "isolated/world.h"

namespace openreg {

namespace {

// The values that a device process gets at its start.
wire::Start make_start(Context& context, const HostMemory& host,
                       uint32_t control_queue) {
  const SharedMemory& staging = IsolatedWorld::get().staging();
  wire::Start start{};
  start.version = wire::kProtocolVersion;
  start.device = context.device();
  start.epoch = context.epoch();
  start.memory_base = context.memory().base();
  start.memory_size = context.memory().size();
  start.memory_limit = context.memory().limit();
  start.pinned_base = reinterpret_cast<uintptr_t>(host.shared_arena().data());
  start.pinned_size = host.shared_arena().size();
  start.staging_base = reinterpret_cast<uintptr_t>(staging.data());
  start.staging_size = staging.size();
  start.control_queue = control_queue;
  start.errors = static_cast<uint32_t>(context.config().errors);
  return start;
}

}  // namespace

IsolatedHardware::IsolatedHardware(Context& context) : context_(context) {
  IsolatedWorld::get().add_hardware(context, *this);
}

IsolatedHardware::~IsolatedHardware() {
  IsolatedWorld::get().remove_hardware(context_);
}

int IsolatedHardware::places() const { return usable_processors(); }

Status IsolatedHardware::open() {
  HostMemory& host = Runtime::get().host_memory();
  OPENREG_RETURN_IF_ERROR(host.open());
  OPENREG_RETURN_IF_ERROR(IsolatedWorld::get().open());
  const auto channel = Channel::create();
  if (channel == nullptr) {
    return failure(orErrorNotInitialized,
                   "device %d gets no memory that processes can share",
                   context_.device());
  }
  control_ = make_queue(channel, /*visitor=*/nullptr);
  if (control_ == nullptr) {
    return failure(orErrorNotInitialized,
                   "there are too many streams: the devices can have %u at a "
                   "time, all together",
                   wire::kFenceSlots);
  }
  context_.failures().set_source(channel.get());
  builtin_ = std::make_shared<RemoteModule>(control_, kBuiltinModule);
  channel->set_starter([this] { start_process(); });
  const MutexLock lock(mutex_);
  channel_ = channel;
  return {};
}

void IsolatedHardware::start_process() {
  const HostMemory& host = Runtime::get().host_memory();
  const auto life = channel();
  if (life == nullptr) return;  // closed meanwhile
  const wire::Start start = make_start(context_, host, control_->index());
  StartOptions options;
  options.device = context_.device();
  options.fds = {life->fd(), IsolatedWorld::get().fences().fd(),
                 host.shared_arena().fd(), IsolatedWorld::get().staging().fd()};
  options.block.assign(reinterpret_cast<const char*>(&start), sizeof start);
  options.heartbeat_limit = context_.config().heartbeat_limit;
  options.on_death = [this](pid_t pid, const std::string& reason) {
    on_death(pid, reason);
  };
  Status status;
  {
    const MutexLock lock(process_mutex_);
    if (context_.is_closed()) {
      status = being_reset(context_.device());
    } else {
      status = DeviceProcess::start(std::move(options), &process_);
    }
  }
  if (!status.ok()) lose(status);
}

void IsolatedHardware::on_death(pid_t pid, const std::string& reason) {
  const auto from = channel();
  const std::string last =
      from != nullptr ? from->control().activity.get() : std::string();
  lose(failure(
      orErrorDeviceLost, "device %d is lost: the device process %d %s%s%s",
      context_.device(), pid, reason.c_str(),
      last.empty() ? "" : "; the last that it began was ", last.c_str()));
}

void IsolatedHardware::lose(const Status& why) {
  std::shared_ptr<Channel> channel;
  {
    const MutexLock lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = why;
    channel = channel_;
  }
  // First the reason, then the wake-up: whoever wakes finds it.
  if (why.code() == orErrorDeviceLost) context_.failures().report(why);
  if (channel != nullptr) channel->close();
  // A queue that is made from here on finds the channel closed.
  std::vector<std::weak_ptr<RemoteQueue>> queues;
  {
    const MutexLock lock(mutex_);
    queues = queues_;
  }
  for (const auto& weak : queues) {
    if (const auto queue = weak.lock()) queue->lose(why);
  }
}

void IsolatedHardware::close() {
  {
    const MutexLock lock(process_mutex_);
    process_.reset();
  }
  lose(failure(orErrorInvalidHandle,
               "device %d was reset while the work was queued",
               context_.device()));
  context_.failures().set_source(nullptr);
  const MutexLock lock(mutex_);
  // Old streams keep the channel for as long as they are known.
  if (channel_ != nullptr) channel_->drop();
  channel_.reset();
  queues_.clear();
}

std::shared_ptr<Channel> IsolatedHardware::channel() {
  const MutexLock lock(mutex_);
  return channel_;
}

Status IsolatedHardware::add_memory(uintptr_t address, size_t size) {
  const auto header =
      wire::make_header(wire::Kind::kAddMemory, {address, size});
  const auto to = channel();
  if (to != nullptr && to->push_lazily(header)) return {};
  const MutexLock lock(mutex_);
  return context_.is_closed() ? being_reset(context_.device()) : lost_;
}

void IsolatedHardware::remove_memory(uintptr_t address) {
  const auto header = wire::make_header(wire::Kind::kRemoveMemory, {address});
  // A device that is gone has no memory.
  if (const auto to = channel()) to->push_lazily(header);
}

std::shared_ptr<Timestamp> IsolatedHardware::create_stamp() {
  const auto to = channel();
  return to != nullptr ? to->create_stamp() : std::make_shared<Timestamp>();
}

pid_t IsolatedHardware::process() {
  const MutexLock lock(process_mutex_);
  return process_ != nullptr && process_->is_alive() ? process_->pid() : 0;
}

void IsolatedHardware::add_counters(DeviceCounters& sum) {
  const auto from = channel();
  if (from == nullptr) return;
  if (process() == 0) return;
  // What was sent before has its effect.
  const Status answered = control_->request(wire::Kind::kPing, {}, {});
  // The program has not asked for it.
  if (answered.ok()) counters().device_waits.fetch_sub(1);
  sum.add(from->control().counters);
}

std::shared_ptr<RemoteQueue> IsolatedHardware::make_queue(
    std::shared_ptr<Channel> to, Context* visitor) {
  uint32_t index = 0;
  if (!IsolatedWorld::get().take_slot(&index)) return nullptr;
  const MutexLock lock(mutex_);
  auto queue =
      std::make_shared<RemoteQueue>(context_, std::move(to), index, visitor);
  std::erase_if(queues_, [](const auto& weak) { return weak.expired(); });
  queues_.push_back(queue);
  return queue;
}

std::shared_ptr<RemoteQueue> IsolatedHardware::create_queue(int priority,
                                                            Context* visitor) {
  const auto to = channel();
  auto queue = make_queue(to, visitor);
  if (queue == nullptr) return nullptr;
  wire::Header header = wire::make_header(
      wire::Kind::kCreateQueue,
      {static_cast<uint64_t>(static_cast<int64_t>(priority))});
  header.queue = queue->index();
  if (to == nullptr || !to->push_lazily(header)) {
    const MutexLock lock(mutex_);
    queue->lose(lost_);
  }
  return queue;
}

Status IsolatedHardware::load_module(const char* path,
                                     std::shared_ptr<ModuleImage>* image) {
  const auto to = channel();
  if (to != nullptr && !to->is_started()) {
    // Then this device, and all later ones, start with the libraries loaded. If
    // that fails, the module says why.
    static_cast<void>(preload(loaded_needs(path)));
  }
  const auto module =
      std::make_shared<RemoteModule>(control_, next_module_.fetch_add(1));
  OPENREG_RETURN_IF_ERROR(module->load(path));
  *image = module;
  return {};
}

std::unique_ptr<Hardware> make_isolated_hardware(Context& context) {
  return std::make_unique<IsolatedHardware>(context);
}

}  // namespace openreg
