#include "support/process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "openreg/openreg.h"

namespace openreg::test {

namespace {

// The letter of /proc/ID/stat; a thread that has gone gives 'X'.
char thread_state(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end + 2 < line.size() ? line[name_end + 2] : 'X';
}

// This process and those of its devices.
std::set<pid_t> own_processes() {
  std::set<pid_t> result = {getpid()};
  int count = 0;
  if (orGetDeviceCount(&count) != orSuccess) return result;
  for (int device = 0; device < count; ++device) {
    orDeviceProcessInfo info{};
    info.structSize = sizeof info;
    if (orDeviceGetProcessInfo(&info, device) == orSuccess && info.pid != 0) {
      result.insert(info.pid);
    }
  }
  return result;
}

}  // namespace

size_t resident_bytes() {
  size_t pages = 0;
  for (const pid_t process : own_processes()) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    size_t pages_in_all = 0;
    size_t pages_resident = 0;
    file >> pages_in_all >> pages_resident;
    pages += pages_resident;
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

std::set<pid_t> thread_ids() {
  std::set<pid_t> result;
  for (const pid_t process : own_processes()) {
    const std::string tasks = "/proc/" + std::to_string(process) + "/task";
    std::error_code error;  // a process may end meanwhile
    for (const auto& entry :
         std::filesystem::directory_iterator(tasks, error)) {
      result.insert(std::atoi(entry.path().filename().c_str()));
    }
  }
  return result;
}

std::set<pid_t> new_threads(const std::set<pid_t>& before,
                            const std::set<pid_t>& after) {
  std::set<pid_t> result;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::inserter(result, result.end()));
  return result;
}

bool are_asleep(const std::set<pid_t>& threads) {
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    for (const pid_t thread : threads) {
      if (thread_state(thread) != 'S') return false;
    }
    sched_yield();
  }
  return true;
}

}  // namespace openreg::test
