// A device program that does what its block says. It first writes a line to the
// first descriptor it was given, if any, so that a test knows that it runs.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "isolated/process/start_up.h"

namespace openreg {

namespace {

int wait_for_end() {
  static std::mutex* const end = new std::mutex;
  end->lock();
  StartUp::on_end_request([] { end->unlock(); });
  end->lock();
  return 0;
}

[[noreturn]] int sleep_for_ever() {
  while (true) pause();
}

// A fault, in a way that is no undefined behaviour of the language.
int crash() {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer would exit
  void* const page =
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile char*>(page) = 1;
  return 0;
}

// The open descriptors, one a word: number=target.
std::string open_descriptors() {
  std::string result;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    const std::string name = target.string();
    if (error || name.find("/fd") != name.npos) continue;  // this directory
    result += entry.path().filename().string() + "=" + name + " ";
  }
  return result;
}

// What /proc/self/status says of `key`, without the spaces.
std::string status_of(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":\t", 0) == 0) return line.substr(key.size() + 2);
  }
  return "?";
}

std::string describe_self(const StartUp& start_up) {
  const auto preloaded = reinterpret_cast<int (*)()>(
      dlsym(RTLD_DEFAULT, "openreg_test_preloaded"));
  return "device=" + std::to_string(start_up.device) +
         " name=" + status_of("Name") + " blocked=" + status_of("SigBlk") +
         " ignored=" + status_of("SigIgn") +
         " session=" + std::to_string(getsid(0)) +
         " parent=" + std::to_string(getppid()) + " preloaded=" +
         (preloaded != nullptr ? std::to_string(preloaded()) : "no") +
         " open: " + open_descriptors();
}

const std::map<std::string, std::function<int()>> kActs = {
    {"wait", wait_for_end},
    {"sleep", sleep_for_ever},
    {"ignore end", sleep_for_ever},
    {"exit 0", [] { return 0; }},
    {"exit 3", [] { return 3; }},
    {"abort", []() -> int { std::abort(); }},
    {"crash", crash},
    {"kill 9",
     [] {
       raise(SIGKILL);
       return 0;
     }},
    {"kill 40",
     [] {
       raise(40);
       return 0;
     }},
};

}  // namespace

int serve_device(const StartUp& start_up) {
  std::string act = start_up.block;
  std::string greeting = "ready";
  if (act == "ignore end") StartUp::on_end_request([] {});
  if (act == "describe") {
    act = "wait";
    greeting = describe_self(start_up);
  }
  if (act.rfind("echo ", 0) == 0) {
    greeting = act.substr(5);
    act = "wait";
  }
  if (!start_up.fds.empty()) {
    dprintf(start_up.fds[0], "%s\n", greeting.c_str());
  }
  const auto found = kActs.find(act);
  return found != kActs.end() ? found->second() : 99;
}

}  // namespace openreg
