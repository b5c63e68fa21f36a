// Everything here but install_fault_report runs inside a signal handler: no
// allocation, no locks that are waited for, no stdio.
#include "core/fault_report.h"

#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "core/runtime.h"

namespace openreg {

namespace {

constexpr std::array<int, 2> kSignals = {SIGSEGV, SIGBUS};
std::array<struct sigaction, kSignals.size()> previous_actions;

// A line of text of limited length.
class Line {
 public:
  Line& text(const char* text) {
    while (*text != '\0' && length_ < buffer_.size()) {
      buffer_[length_++] = *text++;
    }
    return *this;
  }
  Line& number(uint64_t value, unsigned base = 10) {
    std::array<char, 24> digits{};
    size_t at = digits.size() - 1;
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return text(&digits[at]);
  }
  Line& address(uint64_t value) { return text("0x").number(value, 16); }
  void print() {
    text("\n");
    // Nothing can be done if standard error is closed.
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, buffer_.data(), length_);
  }

 private:
  std::array<char, 256> buffer_;
  size_t length_ = 0;
};

// Returns the address that the thread faulted at, null if the signal is not
// about one. Python's faulthandler passes a fault on by raising the signal
// again; the address is then only in the saved registers.
const void* fault_address(const siginfo_t& info, const void* saved) {
  if (info.si_code > 0) return info.si_addr;
  if (info.si_code != SI_TKILL || info.si_pid != getpid()) return nullptr;
  const auto& machine = static_cast<const ucontext_t*>(saved)->uc_mcontext;
#if defined(__x86_64__)
  constexpr greg_t kPageFault = 14;
  if (machine.gregs[REG_TRAPNO] != kPageFault) return nullptr;
  return reinterpret_cast<const void*>(machine.gregs[REG_CR2]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(machine.fault_address);
#else
  static_cast<void>(machine);
  return nullptr;
#endif
}

void describe(const Context& life, uintptr_t address) {
  Line line;
  line.text("openreg:   device ").number(static_cast<uint64_t>(life.device()));
  const Trace trace = life.memory().heap().trace(address, /*patient=*/false);
  if (life.is_closed()) {
    line.text(", memory from before the device was reset");
  } else if (trace.kind == Trace::Kind::kNever) {
    line.text(", memory that was never allocated");
  } else if (trace.kind == Trace::Kind::kBusy) {
    line.text(", whose heap is in use: the allocation can't be looked up");
  } else if (trace.block.size == 0) {
    line.text(", memory that belongs to no live allocation");
  } else {
    line.text(", ")
        .number(address - trace.block.base)
        .text(" bytes into a ")
        .text(trace.kind == Trace::Kind::kLive ? "live" : "freed")
        .text(" allocation of ")
        .number(trace.block.size)
        .text(" bytes at ")
        .address(trace.block.base);
  }
  line.print();
}

void report(const void* pointer) {
  const Context* life = Runtime::get().find_owner(pointer);
  if (life == nullptr) return;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Line()
      .text("openreg: the host touched device memory at ")
      .address(address)
      .print();
  describe(*life, address);
  Line()
      .text(
          "openreg:   device memory can't be read or written by the host: copy "
          "it with orMemcpy first (tensor.cpu() in PyTorch)")
      .print();
}

// Does what would have happened without us.
void pass_on(int signal, siginfo_t* info, void* saved) {
  const struct sigaction& previous =
      previous_actions[signal == kSignals[0] ? 0 : 1];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, saved);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
    struct sigaction fatal{};
    fatal.sa_handler = SIG_DFL;
    sigaction(signal, &fatal, nullptr);
    // A real fault happens again on return; a sent signal has to be sent again.
    if (info->si_code <= 0) raise(signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* saved) {
  const void* const address = fault_address(*info, saved);
  if (address != nullptr) report(address);
  pass_on(signal, info, saved);
}

}  // namespace

void install_fault_report() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &previous_actions[i]);
      struct sigaction action{};
      action.sa_sigaction = on_fault;
      action.sa_mask = previous_actions[i].sa_mask;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigaction(kSignals[i], &action, nullptr);
    }
  });
}

}  // namespace openreg
