// Streams, as PyTorch sees them. The names follow c10::cuda.
#pragma once

#include <c10/core/Stream.h>

#include <functional>

#include "backend/export.h"
#include "openreg/stream.h"

namespace torch_openreg {

// A c10::Stream of this backend with the driver's handle in reach. A value:
// copy it freely. Thread-safe.
class TORCH_OPENREG_API OpenRegStream {
 public:
  // Throws c10::Error if the stream belongs to another kind of device.
  explicit OpenRegStream(c10::Stream stream);

  operator c10::Stream() const { return stream_; }
  c10::Stream unwrap() const { return stream_; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::StreamId id() const { return stream_.id(); }

  // The driver's stream. Null is the default stream of the *current* device:
  // make device_index() current before it is used.
  orStream_t handle() const;

  // 0 is the lowest; smaller numbers are higher.
  int priority() const;

  // Whether all work is done; waits for it. Both throw c10::AcceleratorError
  // for an earlier failure of the device.
  bool query() const;
  void synchronize() const;

  bool operator==(const OpenRegStream&) const = default;

 private:
  c10::Stream stream_;
};

// The lowest priority (0) and the highest (negative).
struct StreamPriorityRange {
  int least;
  int greatest;
};
TORCH_OPENREG_API StreamPriorityRange stream_priority_range();

// In all of these a negative device is the current one.

// One of the streams of a pool, round robin: a pool has 32 streams a device and
// priority, each created on first use. `priority` is brought into range.
TORCH_OPENREG_API OpenRegStream getStreamFromPool(int priority = 0,
                                                  c10::DeviceIndex device = -1);

// A stream that was created with the driver's API; it stays its owner's.
TORCH_OPENREG_API OpenRegStream getStreamFromExternal(orStream_t handle,
                                                      c10::DeviceIndex device);

TORCH_OPENREG_API OpenRegStream
getDefaultOpenRegStream(c10::DeviceIndex device = -1);

// Each thread has a current stream on each device, at first the default one.
TORCH_OPENREG_API OpenRegStream
getCurrentOpenRegStream(c10::DeviceIndex device = -1);

// The driver's handle of that stream. Requires that the device exists; see
// OpenRegStream::handle for null.
orStream_t current_stream_handle(c10::DeviceIndex device);

// Changes it for the stream's device; the current device stays.
TORCH_OPENREG_API void setCurrentOpenRegStream(OpenRegStream stream);

}  // namespace torch_openreg

template <>
struct std::hash<torch_openreg::OpenRegStream> {
  size_t operator()(const torch_openreg::OpenRegStream& stream) const noexcept {
    return std::hash<c10::Stream>{}(stream.unwrap());
  }
};
