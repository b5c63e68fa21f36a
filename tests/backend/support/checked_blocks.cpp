#include "tests/backend/support/checked_blocks.h"

#include <algorithm>
#include <utility>

namespace torch_openreg::test {

using openreg::test::builtin;
using openreg::test::launch;

BlockChecker::BlockChecker(unsigned seed)
    : engine_(seed),
      fill_(builtin("fill")),
      busy_(builtin("busy")),
      seen_(kSlots * kWindows * kWindow) {
  for (size_t i = 0; i < kSlots; ++i) idle_slots_.push_back(i);
}

BlockChecker::~BlockChecker() {
  while (!looks_.empty()) finish_oldest();
}

size_t BlockChecker::random_size(size_t largest) {
  const size_t kind = random(100);
  if (kind < 60) return 1 + random(8 * kKiB);
  if (kind < 90) return 1 + random(kMiB + kMiB / 8);
  return 1 + random(largest);
}

CheckedBlock BlockChecker::make(size_t size, const OpenRegStream& owner) {
  CheckedBlock block{allocate_on(owner, size), size,
                     static_cast<unsigned char>(1 + random(255)), owner};
  const orTestingFillArgs args{block.ptr.get(), size, block.value};
  OR_EXPECT_OK(launch(fill_, args, owner.handle()));
  return block;
}

void BlockChecker::release(CheckedBlock block, const OpenRegStream& stream,
                           bool late) {
  if (stream != block.owner) {
    OpenRegEvent filled;
    filled.record(block.owner);
    filled.block(stream);
    allocator().recordStream(block.ptr, stream);
  }
  if (late) {
    const orTestingBusyArgs args{random(200000)};
    OR_EXPECT_OK(launch(busy_, args, stream.handle()));
  }
  queue_look(block, stream);
  drop(block.ptr);
}

void BlockChecker::queue_look(const CheckedBlock& block,
                              const OpenRegStream& stream) {
  if (idle_slots_.empty()) finish_oldest();
  Look look{idle_slots_.back(), 0, block.value, block.ptr.get(),
            OpenRegEvent()};
  idle_slots_.pop_back();
  unsigned char* to = seen_.get() + look.slot * kWindows * kWindow;
  const size_t length = std::min(block.size, kWindow);
  for (size_t offset :
       {size_t{0}, random(block.size - length + 1), block.size - length}) {
    OR_EXPECT_OK(orMemcpyAsync(to + look.bytes,
                               static_cast<char*>(block.ptr.get()) + offset,
                               length, orMemcpyDefault, stream.handle()));
    look.bytes += length;
  }
  look.event.record(stream);
  looks_.push_back(std::move(look));
}

void BlockChecker::finish_oldest() {
  const Look look = std::move(looks_.front());
  looks_.pop_front();
  look.event.synchronize();
  const unsigned char* seen = seen_.get() + look.slot * kWindows * kWindow;
  const auto wrong =
      std::find_if(seen, seen + look.bytes,
                   [&](unsigned char byte) { return byte != look.value; });
  EXPECT_EQ(wrong, seen + look.bytes)
      << "the block at " << look.address << " was filled with "
      << int{look.value} << " and holds " << int{*wrong};
  idle_slots_.push_back(look.slot);
}

}  // namespace torch_openreg::test
