#include "backend/ops/copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backend/pytorch/copy_values.h"
#include "backend/pytorch/tensor_kinds.h"
#include "backend/runtime/check.h"
#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/host_allocator.h"
#include "backend/runtime/sync_debug.h"
#include "backend/seam.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

bool has_same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() &&
         a.is_neg() == b.is_neg();
}

// The stride of a dimension of size 1 means nothing.
bool has_same_order(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

// Whether one run of bytes on each side is the whole copy.
bool is_one_run(const at::Tensor& dst, const at::Tensor& src) {
  return has_same_bits(dst, src) && has_same_order(dst, src) &&
         dst.is_non_overlapping_and_dense();
}

// Whether the bytes of the tensor, as one run, are its values.
bool is_direct(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && !tensor.is_conj() &&
         !tensor.is_neg();
}

// Without gaps: in its own order if it has none, else contiguous.
at::MemoryFormat dense_format(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? at::MemoryFormat::Preserve
                                               : at::MemoryFormat::Contiguous;
}

// A new tensor where `like` is, without gaps, with the dtype and the order of
// `order` and no lazy bits.
at::Tensor staging(const at::Tensor& like, const at::Tensor& order) {
  return at::empty_like(order,
                        at::dtype(order.scalar_type()).device(like.device()),
                        dense_format(order));
}

void memcpy_on(const OpenRegStream& stream, const at::Tensor& dst,
               const at::Tensor& src) {
  OPENREG_CHECK(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(),
                              dst.nbytes(), orMemcpyDefault, stream.handle()));
}

void copy_on_one(const at::Tensor& dst, const at::Tensor& src) {
  const OpenRegStream stream = getCurrentOpenRegStream(dst.device().index());
  const DeviceScope scope(stream.device_index());
  if (is_one_run(dst, src)) return memcpy_on(stream, dst, src);
  copy_on_device(dst, src);
}

// In the order of the source's stream, as CUDA does it: behind what the
// destination's stream was given before, and before what it is given later.
void send(const at::Tensor& dst, const at::Tensor& src) {
  const OpenRegStream from = getCurrentOpenRegStream(src.device().index());
  const OpenRegStream to = getCurrentOpenRegStream(dst.device().index());
  OpenRegEvent dst_ready;
  dst_ready.record(to);
  dst_ready.block(from);
  {
    const DeviceScope scope(from.device_index());
    memcpy_on(from, dst, src);
  }
  OpenRegEvent src_done;
  src_done.record(from);
  src_done.block(to);
}

// Bytes travel; all else happens before and after, each on one device.
void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  if (is_one_run(dst, src)) return send(dst, src);
  at::Tensor from = src;
  if (!is_direct(src) || dst.scalar_type() != src.scalar_type()) {
    from = staging(src, dst);
    copy_on_one(from, src);
  }
  if (is_one_run(dst, from)) return send(dst, from);
  const at::Tensor to = staging(dst, from);
  send(to, from);
  copy_on_one(dst, to);
}

// Copies bytes between the host and a device.
void transfer(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const at::Tensor& host = dst.is_cpu() ? dst : src;
  const at::Tensor& remote = dst.is_cpu() ? src : dst;
  const OpenRegStream stream = getCurrentOpenRegStream(remote.device().index());
  const DeviceScope scope(stream.device_index());
  if (!non_blocking) note_synchronization();
  memcpy_on(stream, dst, src);
  if (!non_blocking) return stream.synchronize();
  const c10::DataPtr& data = host.storage().data_ptr();
  // Unknown to the allocator if somebody else has pinned it, or if it is
  // pageable: then the driver has waited.
  getOpenRegHostAllocator()->record_event(
      const_cast<void*>(host.storage().data()), data.get_context(), stream);
}

// Whether the device can fetch the bytes of `src` while the host goes on.
bool is_fetchable(const at::Tensor& src) {
  return src.is_non_overlapping_and_dense() &&
         is_pinned_ptr(src.const_data_ptr());
}

// The bytes travel as they are and become the values of `dst` on the device:
// the host would have to wait for a temporary tensor of its own.
void convert_on_device(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor to = staging(dst, src);
  set_lazy_like(to, src);
  transfer(to, src, /*non_blocking=*/true);
  copy_on_one(dst, to);
}

void copy_to_device(const at::Tensor& dst, const at::Tensor& src,
                    bool non_blocking) {
  if (is_one_run(dst, src)) return transfer(dst, src, non_blocking);
  if (non_blocking && is_fetchable(src)) return convert_on_device(dst, src);
  const at::Tensor to = is_direct(dst) ? dst : staging(dst, dst);
  at::Tensor from = src;
  if (!is_one_run(to, src)) {
    from = staging(src, to);
    copy_values(from, src);
  }
  transfer(to, from, non_blocking);
  if (!to.is_same(dst)) copy_on_one(dst, to);
}

void copy_to_host(const at::Tensor& dst, const at::Tensor& src,
                  bool non_blocking) {
  if (is_one_run(dst, src)) return transfer(dst, src, non_blocking);
  // Converted on the device, so that the host's part is one run of bytes.
  const at::Tensor from = staging(src, dst);
  copy_on_one(from, src);
  if (is_direct(dst)) return transfer(dst, from, non_blocking);
  const at::Tensor to = staging(dst, from);
  transfer(to, from, /*non_blocking=*/false);
  copy_values(dst, to);
}

// Here and not where the copy runs: nobody listens there.
void warn_of_lost_part(const at::Tensor& dst, const at::Tensor& src) {
  if (loses_imaginary_part(dst, src)) {
    TORCH_WARN_ONCE(
        "Casting complex values to real discards the imaginary part");
  }
}

// The source in the destination's shape, with PyTorch's messages.
at::Tensor broadcast(const at::Tensor& src, const at::Tensor& dst) {
  if (src.sizes() == dst.sizes()) return src;
  const auto shape = at::infer_size_dimvector(dst.sizes(), src.sizes());
  TORCH_CHECK(dst.sizes() == at::IntArrayRef(shape), "output with shape ",
              dst.sizes(), " doesn't match the broadcast shape ",
              at::IntArrayRef(shape));
  return src.expand(dst.sizes());
}

}  // namespace

void copy_tensor(const at::Tensor& dst, const at::Tensor& src,
                 bool non_blocking) {
  const at::Tensor from = broadcast(src, dst);
  if (dst.numel() == 0) return;
  at::assert_no_internal_overlap(dst);
  if (!has_same_bits(dst, from)) {
    check_convertible(dst, from);
    warn_of_lost_part(dst, from);
  }
  if (!dst.is_cpu() && !src.is_cpu()) {
    if (dst.device() != src.device()) return copy_between_devices(dst, from);
    at::assert_no_partial_overlap(dst, src);
    return copy_on_one(dst, from);
  }
  if (dst.is_cpu()) return copy_to_host(dst, from, non_blocking);
  copy_to_device(dst, from, non_blocking);
}

}  // namespace torch_openreg
