#include "backend/runtime/storage.h"
#include "backend/runtime/registration.h"

#include <c10/util/Exception.h>

#include <utility>

namespace torch_openreg {

namespace {

c10::intrusive_ptr<c10::StorageImpl> make_storage(
    c10::StorageImpl::use_byte_size_t use_byte_size, c10::SymInt size_bytes,
    c10::DataPtr data, c10::Allocator* allocator, bool resizable) {
  // Without memory the allocator gives some, on the current device; a storage
  // of no bytes needs none and keeps the device that it was given.
  const bool is_empty_on_device =
      data.device().is_privateuseone() && size_bytes.maybe_as_int() == 0;
  if (data == nullptr && !is_empty_on_device) {
    return c10::make_intrusive<OpenRegStorageImpl>(
        use_byte_size, std::move(size_bytes), allocator, resizable);
  }
  return c10::make_intrusive<OpenRegStorageImpl>(
      use_byte_size, std::move(size_bytes), std::move(data), allocator,
      resizable);
}

}  // namespace

void register_storage() {
  c10::SetStorageImplCreate(c10::DeviceType::PrivateUse1, &make_storage);
}

OpenRegStorageImpl& to_openreg_storage(const c10::Storage& storage) {
  auto* const ours =
      dynamic_cast<OpenRegStorageImpl*>(storage.unsafeGetStorageImpl());
  TORCH_CHECK_TYPE(ours != nullptr,
                   "expected a storage on an OpenReg device, got one on ",
                   storage.device());
  return *ours;
}

}  // namespace torch_openreg
