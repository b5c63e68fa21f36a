#include "core/system_memory.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace openreg {

namespace {

// Reads the first number of a file; SIZE_MAX if there is none ("max").
size_t read_number(const std::string& path) {
  std::ifstream file(path);
  unsigned long long number = 0;
  return file >> number ? static_cast<size_t>(number) : SIZE_MAX;
}

// The smallest limit on the way from a control group to the root.
size_t smallest_limit(const std::string& mount, std::string group,
                      const char* file) {
  size_t limit = SIZE_MAX;
  for (;;) {
    limit = std::min(limit, read_number(mount + group + "/" + file));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) break;
    group.resize(slash);
  }
  return std::min(limit, read_number(mount + "/" + file));
}

// Lines of /proc/self/cgroup are "id:controllers:group"; version 2 has no
// controllers.
size_t cgroup_memory_limit() {
  size_t limit = SIZE_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      limit = std::min(limit,
                       smallest_limit("/sys/fs/cgroup", group, "memory.max"));
    } else if (("," + controllers + ",").find(",memory,") !=
               std::string::npos) {
      limit = std::min(limit, smallest_limit("/sys/fs/cgroup/memory", group,
                                             "memory.limit_in_bytes"));
    }
  }
  return limit;
}

size_t resource_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return SIZE_MAX;
  }
  return limit.rlim_cur;
}

}  // namespace

size_t usable_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  const size_t physical =
      pages > 0 && page_size > 0
          ? static_cast<size_t>(pages) * static_cast<size_t>(page_size)
          : size_t{1} << 30;
  return std::min({physical, cgroup_memory_limit(), resource_limit(RLIMIT_AS),
                   resource_limit(RLIMIT_DATA)});
}

size_t usable_address_space() {
  const size_t limit = resource_limit(RLIMIT_AS);
  if (limit == SIZE_MAX) return SIZE_MAX;
  const size_t pages = read_number("/proc/self/statm");
  if (pages == SIZE_MAX) return limit;
  const size_t used = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return limit > used ? limit - used : 0;
}

ProcessUsage process_usage(pid_t process) {
  ProcessUsage usage;
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string name; file >> name;) {
    if (name == "VmRSS:" && file >> usage.resident_bytes) {
      usage.resident_bytes <<= 10;  // it is in KiB
    } else if (name == "Threads:") {
      file >> usage.threads;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return usage;
}

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int processor_clock_khz() {
  const size_t khz =
      read_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (khz < INT32_MAX) return static_cast<int>(khz);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("cpu MHz", 0) != 0) continue;
    const double mhz = std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    return static_cast<int>(mhz * 1000);
  }
  return 0;
}

}  // namespace openreg
