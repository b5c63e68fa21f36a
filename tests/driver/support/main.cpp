// Runs the tests, or, as "--child=NAME", the body of one OPENREG_CHILD.
#include <gtest/gtest.h>

#include <string>

#include "support/support.h"

int main(int argc, char** argv) {
  const std::string flag = "--child=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(flag, 0) == 0) {
      return openreg::test::child_main(argument.substr(flag.size()));
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
