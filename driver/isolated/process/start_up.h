// The device's side of a start: what the process finds when it begins, and the
// function that is the device. main() of `openreg-device` does the rest.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace openreg {

// The values that the parent passed in StartOptions. The process owns the
// descriptors.
struct StartUp {
  int device = 0;
  std::vector<int> fds;  // close-on-exec
  std::string block;

  // Calls `handler` when the parent asks this process to end: it is to make
  // serve_device return, and has the parent's patience for it. At once if the
  // parent has asked already; else on the thread that looks after the parent,
  // so it must not block. Without a handler the process ends by _exit(0). Call
  // it once.
  static void on_end_request(const std::function<void()>& handler);
};

// Serves the device until the parent asks it to end; the result is the exit
// code of the process. Called once, on the only thread but one: the other looks
// after the parent (and ends the process when that ends) and gives signs of
// life. Standard input is empty; signals have their default actions and none is
// blocked. Implemented by whoever is linked with openreg_device_main.
int serve_device(const StartUp& start_up);

}  // namespace openreg
