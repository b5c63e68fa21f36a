// Blocks whose content is watched: each is filled with a byte of its own by its
// stream, and looked at before it is freed, in the order of a stream that has
// the right to. If the allocator gave the memory away too early, or twice, the
// next owner has written over it.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "backend/runtime/event.h"
#include "openreg/module.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

struct CheckedBlock {
  c10::DataPtr ptr;
  size_t size = 0;
  unsigned char value = 0;
  OpenRegStream owner = getDefaultOpenRegStream();
};

// Makes such blocks of device 0 and checks them. For one thread; a block may go
// from one checker to another.
class BlockChecker {
 public:
  explicit BlockChecker(unsigned seed);
  // Waits for the checks.
  ~BlockChecker();
  BlockChecker(const BlockChecker&) = delete;
  BlockChecker& operator=(const BlockChecker&) = delete;

  // Allocates for `owner` and queues the fill. May throw c10::OutOfMemoryError.
  CheckedBlock make(size_t size, const OpenRegStream& owner);

  // Queues a look at the block on `stream`, behind the owner's work, and frees
  // the block at once: long before the look, if the stream is late.
  void release(CheckedBlock block, const OpenRegStream& stream, bool late);

  // A size as programs have them: many small ones, few large ones.
  size_t random_size(size_t largest);
  // A number below `count`.
  size_t random(size_t count) { return engine_() % count; }

 private:
  static constexpr size_t kSlots = 64;
  static constexpr size_t kWindow = 512;  // at both ends and somewhere inside
  static constexpr size_t kWindows = 3;

  struct Look {
    size_t slot;
    size_t bytes;
    unsigned char value;
    const void* address;
    OpenRegEvent event;
  };

  void queue_look(const CheckedBlock& block, const OpenRegStream& stream);
  void finish_oldest();

  std::mt19937 engine_;
  const orFunction_t fill_;
  const orFunction_t busy_;
  openreg::test::PinnedBuffer<unsigned char> seen_;
  std::vector<size_t> idle_slots_;
  std::deque<Look> looks_;
};

}  // namespace torch_openreg::test
