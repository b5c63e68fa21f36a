// A random walk over the driver's API, beside a model that knows what each call
// must answer and what memory must hold.
//
// The walk never makes what it cannot predict: two accesses to one block are
// ordered by events, a call is wrong in one way at a time, and a failing kernel
// is followed by the call that delivers its failure. Pageable pointers are
// always valid.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "support/support.h"

namespace openreg::test {

class FuzzWalk {
 public:
  // With `alone`, nobody else uses the driver: the walk resets devices, lets
  // kernels fail, uses addresses after they were freed and checks the counters.
  // Without it, walks on several threads leave each other in peace.
  FuzzWalk(uint64_t seed, bool alone);

  // Makes at least `calls` calls, or stops at the first wrong answer.
  void run(size_t calls);

  // Looks at all memory, compares the counters, and destroys everything.
  void finish();

 private:
  // A live stream; a null handle is the default stream of `device`.
  struct StreamRef {
    orStream_t handle = nullptr;
    int device = 0;
    bool operator==(const StreamRef&) const = default;
  };
  struct LiveEvent {
    orEvent_t handle;
    int device;
    bool timed;
    bool recorded;
  };
  struct LiveModule {
    orModule_t handle;
    int device;
    orFunction_t noop;
  };
  // A live allocation and what it must hold.
  struct Block {
    char* ptr;
    size_t size;
    int device;  // -1: pinned host memory
    std::vector<unsigned char> bytes;
    bool known = false;    // `bytes` is right once the work is done
    bool pending = false;  // work may be queued, the latest on `last`
    StreamRef last = {};
    bool peer_kernel = false;  // another device's may be queued, which orFree
                               // does not wait for
  };
  struct Gone {
    uint64_t value;  // a handle or an address that is refused
    bool by_reset;
  };

  // fuzz_walk.cpp: the core, and what concerns devices
  bool check(std::initializer_list<orError_t> expected, orError_t actual,
             const char* text);
  void expect_says_reset(const Gone& gone);
  size_t below(size_t bound);
  bool chance(unsigned percent);
  void step();
  void set_device(int device);
  void select(const StreamRef& stream);
  StreamRef any_stream();
  bool is_live(const StreamRef& stream) const;
  void sync_all();
  void sync_others(int device);
  void order(std::initializer_list<Block*> blocks, const StreamRef& stream);
  void forget_device(int device, bool all_work_done);
  void check_counters();
  void do_device();
  void do_peer();
  void do_reset();

  // fuzz_work.cpp: streams and events
  void do_stream();
  void do_bad_stream();
  void do_event();
  void do_elapsed_time();
  void do_bad_event();
  void destroy_handles();

  // fuzz_kernel.cpp: modules, kernels, host functions, failures
  void do_module();
  void do_launch();
  void do_bad_launch();
  void do_block_kernel();
  void do_host_function();
  void do_failure();
  void do_sticky_failure();

  // fuzz_memory.cpp: allocations
  void do_malloc();
  void do_bad_malloc();
  void do_free();
  void do_bad_free();
  void do_register();
  void do_attributes();
  void do_memory_info();
  Block* any_block();
  Block* any_device_block();
  bool is_inside_a_block(uint64_t address) const;
  size_t any_size();
  void verify(Block& block);
  void verify_and_free_all();
  void write(Block& block, size_t offset, const unsigned char* bytes,
             size_t count, bool known);

  // fuzz_copy.cpp: copies and fills
  void do_copy();
  void do_bad_copy();
  void do_peer_copy();
  void do_memset();
  void do_bad_memset();

  const uint64_t seed_;
  const bool alone_;
  std::mt19937_64 random_;
  size_t calls_ = 0;
  bool failed_ = false;
  std::deque<std::string> trace_;  // the latest calls, for the report

  int device_count_ = 0;
  int current_ = 0;
  std::vector<std::vector<bool>> peers_;  // [device][peer]
  std::vector<orEvent_t> chain_;          // per device, for `order`; or null
  std::vector<size_t> free_bytes_;        // per device; used when alone
  std::vector<StreamRef> streams_;        // without default streams
  std::vector<LiveEvent> events_;
  std::vector<LiveModule> modules_;
  std::vector<Block> blocks_;
  std::vector<Gone> gone_streams_;
  std::vector<Gone> gone_events_;
  std::vector<Gone> gone_modules_;
  std::vector<Gone> gone_functions_;
  std::vector<Gone> gone_pointers_;  // device memory
  std::vector<char> registered_memory_;
  bool registered_ = false;
  std::atomic<size_t> host_calls_ = 0;
  size_t host_calls_expected_ = 0;
  orTestingCounters before_{};
};

}  // namespace openreg::test

// A call of a walk, and the code or codes that it may give.
#define WALK(expected, call) check({expected}, (call), #call)
