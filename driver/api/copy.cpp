// Copies and fills; the rest of openreg/memory.h is in memory.cpp.
#include "api/arguments.h"
#include "api/entry.h"
#include "openreg/memory.h"

using namespace openreg;
using namespace openreg::api;

namespace {

// Up to so many bytes a copy from pageable memory is captured at the call, and
// a copy or fill on an idle stream is done by the caller.
constexpr size_t kSmallCopy = size_t{64} << 10;

Urgency urgency_of(size_t count) {
  return count <= kSmallCopy ? Urgency::kCheap : Urgency::kQueued;
}

Status check_side(const Location& location, bool must_be_device,
                  const char* argument, orMemcpyKind kind) {
  if (location.is_device() == must_be_device) return {};
  return failure(orErrorInvalidValue, "%s=%p is %s memory, against kind=%d",
                 argument, location.memory.pointer,
                 location.is_device() ? "device" : "host",
                 static_cast<int>(kind));
}

Status check_kind(const Location& dst, const Location& src, orMemcpyKind kind) {
  if (kind == orMemcpyDefault) return {};
  const bool to_device =
      kind == orMemcpyHostToDevice || kind == orMemcpyDeviceToDevice;
  const bool from_device =
      kind == orMemcpyDeviceToHost || kind == orMemcpyDeviceToDevice;
  OPENREG_RETURN_IF_ERROR(check_side(dst, to_device, "dst", kind));
  return check_side(src, from_device, "src", kind);
}

// `blocking` is orMemcpy, which returns when the bytes have arrived.
Status copy(void* dst, const void* src, size_t count, orMemcpyKind kind,
            orStream_t stream_handle, bool blocking) {
  if (kind < orMemcpyHostToHost || kind > orMemcpyDefault) {
    return failure(orErrorInvalidValue, "kind=%d is unknown",
                   static_cast<int>(kind));
  }
  StreamRef stream;
  OPENREG_RETURN_IF_ERROR(stream.find(stream_handle));
  if (count == 0) return stream->context().failures().take();
  Location to;
  Location from;
  OPENREG_RETURN_IF_ERROR(locate(dst, count, "dst", &to));
  OPENREG_RETURN_IF_ERROR(locate(src, count, "src", &from));
  OPENREG_RETURN_IF_ERROR(check_kind(to, from, kind));
  CopyCommand command{to.memory, from.memory, count};
  if (to.is_device() && from.is_device()) {
    return stream->submit(command, {}, urgency_of(count));
  }
  if (!blocking && to.is_device() && from.is_pageable() &&
      count <= kSmallCopy) {
    return stream->submit(CopyCommand{to.memory, {}, count},
                          {static_cast<const std::byte*>(src), count},
                          Urgency::kCheap);
  }
  if (blocking || to.is_pageable() || from.is_pageable()) {
    Completion completion;
    return stream->run(command, {}, completion);
  }
  return stream->submit(command, {}, urgency_of(count));
}

Status check_owner(void* pointer, size_t count, const char* argument,
                   int device, const char* device_argument) {
  OPENREG_RETURN_IF_ERROR(require_device(device, device_argument));
  if (count == 0) return {};
  Location location;
  OPENREG_RETURN_IF_ERROR(locate(pointer, count, argument, &location));
  const Context* const owner = location.memory.owner;
  if (owner != nullptr && owner->device() == device) return {};
  return failure(orErrorInvalidValue, "%s=%p is not memory of %s=%d", argument,
                 pointer, device_argument, device);
}

Status copy_peer(void* dst, int dst_device, const void* src, int src_device,
                 size_t count, orStream_t stream) {
  OPENREG_RETURN_IF_ERROR(
      check_owner(dst, count, "dst", dst_device, "dstDevice"));
  OPENREG_RETURN_IF_ERROR(check_owner(const_cast<void*>(src), count, "src",
                                      src_device, "srcDevice"));
  return copy(dst, src, count, orMemcpyDeviceToDevice, stream,
              /*blocking=*/false);
}

Status fill(void* ptr, int value, size_t count, orStream_t stream_handle,
            bool blocking) {
  StreamRef stream;
  OPENREG_RETURN_IF_ERROR(stream.find(stream_handle));
  if (count == 0) return stream->context().failures().take();
  Location to;
  OPENREG_RETURN_IF_ERROR(locate(ptr, count, "ptr", &to));
  if (to.is_pageable()) {
    return failure(orErrorInvalidValue,
                   "ptr=%p is neither device nor pinned memory", ptr);
  }
  FillCommand command{to.memory, count, static_cast<unsigned char>(value)};
  if (blocking && !to.is_device()) {
    Completion completion;
    return stream->run(command, {}, completion);
  }
  return stream->submit(command, {}, urgency_of(count));
}

}  // namespace

orError_t orMemcpy(void* dst, const void* src, size_t count,
                   orMemcpyKind kind) {
  return call(__func__, [&]() -> Status {
    return copy(dst, src, count, kind, nullptr, /*blocking=*/true);
  });
}

orError_t orMemcpyAsync(void* dst, const void* src, size_t count,
                        orMemcpyKind kind, orStream_t stream) {
  return call(__func__, [&]() -> Status {
    return copy(dst, src, count, kind, stream, /*blocking=*/false);
  });
}

orError_t orMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice,
                       size_t count) {
  return call(__func__, [&]() -> Status {
    return copy_peer(dst, dstDevice, src, srcDevice, count, nullptr);
  });
}

orError_t orMemcpyPeerAsync(void* dst, int dstDevice, const void* src,
                            int srcDevice, size_t count, orStream_t stream) {
  return call(__func__, [&]() -> Status {
    return copy_peer(dst, dstDevice, src, srcDevice, count, stream);
  });
}

orError_t orMemset(void* ptr, int value, size_t count) {
  return call(__func__, [&]() -> Status {
    return fill(ptr, value, count, nullptr, /*blocking=*/true);
  });
}

orError_t orMemsetAsync(void* ptr, int value, size_t count, orStream_t stream) {
  return call(__func__, [&]() -> Status {
    return fill(ptr, value, count, stream, /*blocking=*/false);
  });
}
