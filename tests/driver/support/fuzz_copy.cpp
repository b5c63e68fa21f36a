// The part of the walk that concerns copies and fills.
#include <algorithm>
#include <cstring>
#include <vector>

#include "support/fuzz_walk.h"
#include "support/work.h"

namespace openreg::test {

namespace {

orMemcpyKind kind_of(bool dst_is_device, bool src_is_device) {
  if (dst_is_device) {
    return src_is_device ? orMemcpyDeviceToDevice : orMemcpyHostToDevice;
  }
  return src_is_device ? orMemcpyDeviceToHost : orMemcpyHostToHost;
}

}  // namespace

// Copies between two blocks, or a block and pageable memory, any way round.
void FuzzWalk::do_copy() {
  Block* const dst = chance(75) ? any_block() : nullptr;
  Block* const src = chance(75) ? any_block() : nullptr;
  const size_t count =
      std::min(dst != nullptr ? 1 + below(dst->size) : any_size(),
               src != nullptr ? 1 + below(src->size) : any_size());
  const size_t to = dst != nullptr ? below(dst->size - count + 1) : 0;
  const size_t from = src != nullptr ? below(src->size - count + 1) : 0;
  std::vector<unsigned char> host_src(src != nullptr ? 0 : count);
  std::vector<unsigned char> host_dst(dst != nullptr ? 0 : count);
  for (unsigned char& byte : host_src)
    byte = static_cast<unsigned char>(below(256));

  const bool sync = chance(30);
  const StreamRef stream = sync ? StreamRef{nullptr, current_} : any_stream();
  if (src != nullptr && dst != nullptr) {
    order({src, dst}, stream);
  } else if (src != nullptr || dst != nullptr) {
    order({src != nullptr ? src : dst}, stream);
  }
  select(stream);
  void* const dst_ptr =
      dst != nullptr ? static_cast<void*>(dst->ptr + to) : host_dst.data();
  const void* const src_ptr =
      src != nullptr ? static_cast<void*>(src->ptr + from) : host_src.data();
  const orMemcpyKind kind = chance(50)
                                ? orMemcpyDefault
                                : kind_of(dst != nullptr && dst->device >= 0,
                                          src != nullptr && src->device >= 0);
  WALK(orSuccess,
       sync ? orMemcpy(dst_ptr, src_ptr, count, kind)
            : orMemcpyAsync(dst_ptr, src_ptr, count, kind, stream.handle));
  const bool known = src == nullptr || src->known;
  const unsigned char* const bytes =
      src != nullptr ? src->bytes.data() + from : host_src.data();
  if (dst != nullptr) {
    write(*dst, to, bytes, count, known);
  } else if (known && !failed_) {
    failed_ = std::memcmp(host_dst.data(), bytes, count) != 0;
    if (failed_) {
      ADD_FAILURE() << "call " << calls_ << " of OPENREG_FUZZ_SEED=" << seed_
                    << ": " << count << " wrong bytes came to pageable memory";
    }
  }
}

void FuzzWalk::do_bad_copy() {
  const Block* const block = any_device_block();
  if (block == nullptr) return;
  const size_t offset = below(block->size);
  const size_t too_many = block->size - offset + 1 + below(100);
  std::vector<char> host(std::max(too_many, block->size));
  char* const ptr = block->ptr + offset;
  const StreamRef stream = any_stream();
  select(stream);
  switch (below(8)) {
    case 0:
      WALK(orErrorInvalidValue,
           orMemcpy(ptr, host.data(), too_many, orMemcpyDefault));
      break;
    case 1:
      WALK(orErrorInvalidValue, orMemcpyAsync(host.data(), ptr, too_many,
                                              orMemcpyDefault, stream.handle));
      break;
    case 2:
      WALK(orErrorInvalidValue,
           orMemcpyAsync(ptr, nullptr, 1, orMemcpyDefault, stream.handle));
      break;
    case 3:
      WALK(orErrorInvalidValue,
           orMemcpyAsync(host.data(), ptr, 1, orMemcpyHostToDevice,
                         stream.handle));
      break;
    case 4:
      WALK(orErrorInvalidValue,
           orMemcpy(ptr, host.data(), 1, static_cast<orMemcpyKind>(7)));
      break;
    case 5:
      WALK(orErrorInvalidValue,
           orMemcpy(ptr, ptr, ~size_t{0} - below(64), orMemcpyDefault));
      break;
    case 6:
      WALK(orSuccess,
           orMemcpyAsync(nullptr, nullptr, 0, orMemcpyDefault, stream.handle));
      break;
    default: {
      if (!alone_ || gone_pointers_.empty()) return;
      const Gone gone = gone_pointers_[below(gone_pointers_.size())];
      if (is_inside_a_block(gone.value)) return;
      WALK(orErrorInvalidValue,
           orMemcpyAsync(reinterpret_cast<void*>(gone.value), host.data(), 1,
                         orMemcpyHostToDevice, stream.handle));
      expect_says_reset(gone);
    }
  }
}

void FuzzWalk::do_peer_copy() {
  Block* const dst = any_device_block();
  Block* const src = any_device_block();
  if (dst == nullptr || src == nullptr) return;
  const StreamRef stream = any_stream();
  if (chance(30)) {
    WALK(orErrorInvalidDevice,
         orMemcpyPeer(dst->ptr, device_count_, src->ptr, src->device, 1));
    return;
  }
  const size_t count = below(std::min(dst->size, src->size) + 1);
  order({src, dst}, stream);
  select(stream);
  WALK(orSuccess, orMemcpyPeerAsync(dst->ptr, dst->device, src->ptr,
                                    src->device, count, stream.handle));
  write(*dst, 0, src->bytes.data(), count, src->known);
}

void FuzzWalk::do_memset() {
  Block* const block = any_block();
  if (block == nullptr) return;
  const bool whole = !block->known || chance(20);
  const size_t offset = whole ? 0 : below(block->size);
  const size_t count = whole ? block->size : below(block->size - offset + 1);
  const int value = static_cast<int>(below(1000));  // the low byte counts
  const bool sync = chance(30) && block->device == current_;
  StreamRef stream = sync ? StreamRef{nullptr, current_} : any_stream();
  if (block->device >= 0 && stream.device != block->device) {
    stream = {nullptr, block->device};
  }
  order({block}, stream);
  select(stream);
  WALK(orSuccess,
       sync ? orMemset(block->ptr + offset, value, count)
            : orMemsetAsync(block->ptr + offset, value, count, stream.handle));
  const std::vector<unsigned char> bytes(count,
                                         static_cast<unsigned char>(value));
  write(*block, offset, bytes.data(), count, true);
}

void FuzzWalk::do_bad_memset() {
  const Block* const block = any_device_block();
  char pageable[16] = {};
  switch (below(4)) {
    case 0:
      WALK(orErrorInvalidValue, orMemset(pageable, 0, sizeof pageable));
      break;
    case 1:
      WALK(orErrorInvalidValue, orMemset(nullptr, 0, 1));
      break;
    case 2:
      WALK(orSuccess, orMemset(nullptr, 0, 0));
      break;
    default:
      if (block == nullptr) return;
      WALK(orErrorInvalidValue, orMemset(block->ptr, 0, block->size + 1));
  }
}

}  // namespace openreg::test
