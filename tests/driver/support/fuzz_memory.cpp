// The part of the walk that concerns allocations and what they hold.
#include <algorithm>
#include <cstring>
#include <vector>

#include "support/fuzz_walk.h"
#include "support/work.h"

namespace openreg::test {

namespace {

constexpr size_t kMaxBlocks = 40;
constexpr size_t kGranularity = 512;

size_t rounded(size_t size) {
  return (size + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

FuzzWalk::Block* FuzzWalk::any_block() {
  return blocks_.empty() ? nullptr : &blocks_[below(blocks_.size())];
}

FuzzWalk::Block* FuzzWalk::any_device_block() {
  Block* const block = any_block();
  return block != nullptr && block->device >= 0 ? block : nullptr;
}

bool FuzzWalk::is_inside_a_block(uint64_t address) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [address](const Block& block) {
                       const auto start = reinterpret_cast<uint64_t>(block.ptr);
                       return address >= start && address <= start + block.size;
                     });
}

size_t FuzzWalk::any_size() {
  if (chance(4)) return 60'000 + below(80'000);  // around the limit of capture
  return 1 + below(chance(50) ? 64 : 4096);
}

// Notes that `count` bytes at `offset` were or will be written.
void FuzzWalk::write(Block& block, size_t offset, const unsigned char* bytes,
                     size_t count, bool known) {
  if (count == 0) return;
  std::memmove(block.bytes.data() + offset, bytes, count);
  if (!known) block.known = false;
  if (known && count == block.size) block.known = true;
}

// Compares the block with the model.
void FuzzWalk::verify(Block& block) {
  std::vector<unsigned char> bytes(block.size);
  order({&block}, {nullptr, current_});
  WALK(orSuccess,
       orMemcpy(bytes.data(), block.ptr, block.size, orMemcpyDefault));
  if (!block.known || bytes == block.bytes || failed_) return;
  failed_ = true;
  const auto wrong =
      std::mismatch(bytes.begin(), bytes.end(), block.bytes.begin());
  ADD_FAILURE() << "call " << calls_ << " of OPENREG_FUZZ_SEED=" << seed_
                << ": a block of " << block.size << " bytes on device "
                << block.device << " is wrong at "
                << wrong.first - bytes.begin() << ": " << int{*wrong.first}
                << " and not " << int{*wrong.second};
}

void FuzzWalk::verify_and_free_all() {
  for (Block& block : blocks_) verify(block);
  while (!blocks_.empty() && !failed_) do_free();
}

void FuzzWalk::do_malloc() {
  void* ptr = &ptr;
  if (chance(5)) {
    WALK(orSuccess, orMalloc(&ptr, 0));
    EXPECT_EQ(ptr, nullptr);
    return;
  }
  if (blocks_.size() >= kMaxBlocks) return do_free();
  const size_t size = any_size();
  const bool pinned = chance(30);
  if (!WALK(orSuccess,
            pinned ? orMallocHost(&ptr, size) : orMalloc(&ptr, size))) {
    return;
  }
  EXPECT_EQ(reinterpret_cast<uint64_t>(ptr) % kGranularity, 0u);
  if (!pinned) free_bytes_[static_cast<size_t>(current_)] -= rounded(size);
  blocks_.push_back({.ptr = static_cast<char*>(ptr),
                     .size = size,
                     .device = pinned ? -1 : current_,
                     .bytes = std::vector<unsigned char>(size)});
}

void FuzzWalk::do_bad_malloc() {
  void* ptr = &ptr;
  switch (below(5)) {
    case 0:
      WALK(orErrorInvalidValue, orMalloc(nullptr, 16));
      break;
    case 1:
      WALK(orErrorInvalidValue, orMalloc(&ptr, ~size_t{0} - below(1000)));
      break;
    case 2:
      WALK(orErrorInvalidValue, orMallocHost(nullptr, 16));
      break;
    case 3:
      WALK(orErrorInvalidValue, orMallocHost(&ptr, size_t{1} << 63));
      break;
    default: {
      size_t total = 0;
      WALK(orSuccess, orMemGetInfo(nullptr, &total));
      WALK(orErrorOutOfMemory, orMalloc(&ptr, total + 1));
      EXPECT_EQ(ptr, nullptr);
    }
  }
}

void FuzzWalk::do_free() {
  if (blocks_.empty()) return;
  const size_t i = below(blocks_.size());
  if (chance(30)) verify(blocks_[i]);
  if (blocks_[i].peer_kernel) sync_all();
  const Block block = blocks_[i];
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  if (block.device < 0) {
    WALK(orSuccess, orFreeHost(block.ptr));
    return;
  }
  WALK(orSuccess, orFree(block.ptr));
  free_bytes_[static_cast<size_t>(block.device)] += rounded(block.size);
  gone_pointers_.push_back({reinterpret_cast<uint64_t>(block.ptr), false});
}

void FuzzWalk::do_bad_free() {
  Block* const block = any_block();
  char pageable = 0;
  switch (below(5)) {
    case 0:
      WALK(orSuccess, chance(50) ? orFree(nullptr) : orFreeHost(nullptr));
      break;
    case 1:
      WALK(orErrorInvalidValue,
           chance(50) ? orFree(&pageable) : orFreeHost(&pageable));
      break;
    case 2:
      if (block == nullptr || block->size < 2) return;
      WALK(orErrorInvalidValue, block->device < 0 ? orFreeHost(block->ptr + 1)
                                                  : orFree(block->ptr + 1));
      break;
    case 3:  // the other kind of memory
      if (block == nullptr) return;
      WALK(orErrorInvalidValue,
           block->device < 0 ? orFree(block->ptr) : orFreeHost(block->ptr));
      break;
    default: {
      if (!alone_ || gone_pointers_.empty()) return;
      const Gone gone = gone_pointers_[below(gone_pointers_.size())];
      if (is_inside_a_block(gone.value)) return;
      WALK(orErrorInvalidValue, orFree(reinterpret_cast<void*>(gone.value)));
      expect_says_reset(gone);
    }
  }
}

void FuzzWalk::do_register() {
  char* const memory = registered_memory_.data();
  const size_t size = registered_memory_.size();
  switch (below(5)) {
    case 0:
      WALK(registered_ ? orErrorInvalidValue : orSuccess,
           orHostRegister(memory, size, orHostRegisterDefault));
      registered_ = true;
      break;
    case 1:
      WALK(registered_ ? orSuccess : orErrorInvalidValue,
           orHostUnregister(memory));
      registered_ = false;
      break;
    case 2:
      WALK(orErrorInvalidValue, orHostRegister(nullptr, 16, 0));
      break;
    case 3:
      WALK(orErrorInvalidValue, orHostRegister(memory, 0, 0));
      break;
    default:
      WALK(orErrorInvalidValue, orHostUnregister(memory + 1));
  }
}

void FuzzWalk::do_attributes() {
  orPointerAttributes found{};
  Block* const block = any_block();
  char pageable = 0;
  switch (below(5)) {
    case 0:
      WALK(orErrorInvalidValue, orPointerGetAttributes(nullptr, &pageable));
      break;
    case 1:
      WALK(orSuccess,
           orPointerGetAttributes(&found, chance(50) ? &pageable : nullptr));
      EXPECT_EQ(found.type, orMemoryTypeUnregistered);
      break;
    case 2: {
      if (!alone_ || gone_pointers_.empty()) return;
      const Gone gone = gone_pointers_[below(gone_pointers_.size())];
      if (is_inside_a_block(gone.value)) return;
      WALK(orErrorInvalidValue,
           orPointerGetAttributes(&found, reinterpret_cast<void*>(gone.value)));
      break;
    }
    case 3:
      WALK(orSuccess,
           orPointerGetAttributes(&found, registered_memory_.data() + 100));
      EXPECT_EQ(found.type,
                registered_ ? orMemoryTypeHost : orMemoryTypeUnregistered);
      break;
    default:
      if (block == nullptr) return;
      WALK(orSuccess,
           orPointerGetAttributes(&found, block->ptr + below(block->size)));
      EXPECT_EQ(found.device, block->device);
      EXPECT_EQ(found.base, block->ptr);
      EXPECT_EQ(found.size, block->size);
      EXPECT_EQ(found.type,
                block->device < 0 ? orMemoryTypeHost : orMemoryTypeDevice);
  }
}

void FuzzWalk::do_memory_info() {
  size_t bytes = 0;
  WALK(orSuccess, orMemGetInfo(&bytes, nullptr));
  if (bytes == free_bytes_[static_cast<size_t>(current_)] || failed_) return;
  failed_ = true;
  ADD_FAILURE() << "call " << calls_ << " of OPENREG_FUZZ_SEED=" << seed_
                << ": device " << current_ << " has " << bytes
                << " bytes free, not "
                << free_bytes_[static_cast<size_t>(current_)];
}

}  // namespace openreg::test
