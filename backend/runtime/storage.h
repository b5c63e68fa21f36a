// The storages of tensors on a device.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>

#include "backend/export.h"

namespace torch_openreg {

// A piece of device memory that tensors share. Beside PyTorch's part there is
// room for what a chip has to know of the memory and the bytes don't tell: here
// one number, the format. OpenReg's kernels know one format only, 0; a chip
// that keeps matrices in blocks would have others, and convert by it.
//
// PyTorch makes these wherever it makes a storage on the device, since they are
// registered by c10::SetStorageImplCreate. Reading and changing the format is
// thread-safe.
class TORCH_OPENREG_API OpenRegStorageImpl final : public c10::StorageImpl {
 public:
  using c10::StorageImpl::StorageImpl;

  int64_t format() const { return format_.load(std::memory_order_relaxed); }
  void set_format(int64_t format) {
    format_.store(format, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> format_ = 0;
};

// The storage of `storage`. Throws c10::TypeError if it is not on a device of
// ours or was made by a program that went around PyTorch.
TORCH_OPENREG_API OpenRegStorageImpl& to_openreg_storage(
    const c10::Storage& storage);

}  // namespace torch_openreg
