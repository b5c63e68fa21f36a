#include "isolated/device/reports.h"

#include <algorithm>
#include <cstring>

namespace openreg {

namespace {

void write_report(const Status& status, wire::Report* report) {
  const std::string& message = status.message();
  const size_t size = std::min(message.size(), report->message.size());
  report->code = status.code();
  report->size = static_cast<uint32_t>(size);
  std::memcpy(report->message.data(), message.data(), size);
}

}  // namespace

void Reports::publish(const Status& status, bool is_sticky) {
  const MutexLock lock(mutex_);
  if (is_sticky) {
    if (control_.is_broken.load(std::memory_order_relaxed) != 0) return;
    write_report(status, &control_.broken);
    control_.is_broken.store(1, std::memory_order_release);
  } else {
    const uint64_t kept =
        control_.failures_kept.load(std::memory_order_relaxed);
    const uint64_t read =
        control_.failures_read.load(std::memory_order_acquire);
    if (kept - read < wire::kReports) {
      write_report(status, &control_.reports[kept % wire::kReports]);
      control_.failures_kept.store(kept + 1, std::memory_order_release);
    }
  }
  control_.failures.fetch_add(1, std::memory_order_release);
}

}  // namespace openreg
