#include "backend/runtime/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"

namespace torch_openreg {

namespace {

// Note [Stream ids]
// 0 is the default stream. A stream of a pool has the number
//     1 + level * kStreamsPerPool + index
// where level 0 is the lowest priority. Everything else is an external stream,
// and its number is the driver's handle, which has bits far above these.
constexpr int kStreamsPerPool = 32;
constexpr int kMaxLevels = 8;
constexpr c10::StreamId kFirstExternal = 1 + kMaxLevels * kStreamsPerPool;

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

// The streams of one device and priority, each created on first use. They live
// as long as the device: a c10::Stream is a number that nobody gives back.
// Thread-safe.
class StreamPool {
 public:
  // The number within the pool of the next stream, round robin.
  int next() {
    return static_cast<int>(next_.fetch_add(1, std::memory_order_relaxed) %
                            kStreamsPerPool);
  }

  orStream_t get(c10::DeviceIndex device, int priority, int index) {
    std::atomic<orStream_t>& slot = streams_[static_cast<size_t>(index)];
    const orStream_t found = slot.load(std::memory_order_acquire);
    if (C10_LIKELY(found != nullptr)) return found;
    const std::lock_guard lock(mutex_);
    orStream_t stream = slot.load(std::memory_order_relaxed);
    if (stream != nullptr) return stream;
    const DeviceScope scope(device);
    // As CUDA's pools: such streams don't wait for the default stream.
    OPENREG_CHECK(
        orStreamCreateWithPriority(&stream, orStreamNonBlocking, priority));
    set_primary_context(device);
    slot.store(stream, std::memory_order_release);
    return stream;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    for (auto& slot : streams_) slot.store(nullptr, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> next_{0};
  std::mutex mutex_;  // held while a stream is created
  std::array<std::atomic<orStream_t>, kStreamsPerPool> streams_{};
};

// Throws c10::AcceleratorError if `device` does not exist.
StreamPool& pool(c10::DeviceIndex device, int level) {
  check_device_index(device);
  // Leaked: streams are used until the very end.
  static auto& pools =
      *new std::array<std::array<StreamPool, kMaxLevels>, OPENREG_MAX_DEVICES>;
  return pools[static_cast<size_t>(device)][static_cast<size_t>(level)];
}

c10::Stream make_stream(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, device), id);
}

bool is_external(c10::StreamId id) { return id < 0 || id >= kFirstExternal; }

int level_of(c10::StreamId id) {
  return static_cast<int>((id - 1) / kStreamsPerPool);
}

// The current streams of this thread, by device; 0 is the default stream.
thread_local std::array<c10::StreamId, OPENREG_MAX_DEVICES> current_streams{};

}  // namespace

StreamPriorityRange stream_priority_range() {
  static const StreamPriorityRange range = [] {
    StreamPriorityRange found{};
    OPENREG_CHECK(
        orDeviceGetStreamPriorityRange(&found.least, &found.greatest));
    TORCH_INTERNAL_ASSERT(found.least - found.greatest < kMaxLevels);
    return found;
  }();
  return range;
}

OpenRegStream::OpenRegStream(c10::Stream stream) : stream_(stream) {
  TORCH_CHECK(stream.device_type() == kDeviceType,
              "expected a stream of an OpenReg device, got one of ",
              stream.device());
}

orStream_t OpenRegStream::handle() const {
  if (id() == 0) return nullptr;
  if (is_external(id())) return reinterpret_cast<orStream_t>(id());
  const int level = level_of(id());
  return pool(device_index(), level)
      .get(device_index(), stream_priority_range().least - level,
           static_cast<int>((id() - 1) % kStreamsPerPool));
}

int OpenRegStream::priority() const {
  if (is_external(id())) {
    int priority = 0;
    OPENREG_CHECK(orStreamGetPriority(handle(), &priority));
    return priority;
  }
  const int least = stream_priority_range().least;
  return id() == 0 ? least : least - level_of(id());
}

bool OpenRegStream::query() const {
  const DeviceScope scope(device_index());
  return is_ready(orStreamQuery(handle()), "orStreamQuery");
}

void OpenRegStream::synchronize() const {
  const DeviceScope scope(device_index());
  OPENREG_CHECK(orStreamSynchronize(handle()));
}

void forget_streams(c10::DeviceIndex device) {
  for (int level = 0; level < kMaxLevels; ++level) pool(device, level).forget();
}

OpenRegStream getStreamFromPool(int priority, c10::DeviceIndex device) {
  device = resolve_device(device);
  const auto [least, greatest] = stream_priority_range();
  const int level = least - std::clamp(priority, greatest, least);
  const int index = pool(device, level).next();
  const OpenRegStream stream(
      make_stream(device, 1 + level * kStreamsPerPool + index));
  stream.handle();  // failures to create it belong here
  return stream;
}

OpenRegStream getStreamFromExternal(orStream_t handle,
                                    c10::DeviceIndex device) {
  check_device_index(device);
  if (handle == nullptr) return getDefaultOpenRegStream(device);
  int owner = 0;
  OPENREG_CHECK(orStreamGetDevice(handle, &owner));
  TORCH_CHECK(owner == device, "the external stream belongs to openreg:", owner,
              ", not to openreg:", static_cast<int>(device));
  return OpenRegStream(
      make_stream(device, reinterpret_cast<c10::StreamId>(handle)));
}

OpenRegStream getDefaultOpenRegStream(c10::DeviceIndex device) {
  return OpenRegStream(make_stream(resolve_device(device), 0));
}

OpenRegStream getCurrentOpenRegStream(c10::DeviceIndex device) {
  device = resolve_device(device);
  return OpenRegStream(
      make_stream(device, current_streams[static_cast<size_t>(device)]));
}

orStream_t current_stream_handle(c10::DeviceIndex device) {
  const c10::StreamId id = current_streams[static_cast<size_t>(device)];
  if (C10_LIKELY(id == 0)) return nullptr;
  return OpenRegStream(make_stream(device, id)).handle();
}

void setCurrentOpenRegStream(OpenRegStream stream) {
  check_device_index(stream.device_index());
  current_streams[static_cast<size_t>(stream.device_index())] = stream.id();
}

}  // namespace torch_openreg
