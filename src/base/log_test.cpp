#include "base/log.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

/// A process reads the level once, so each test starts its own process.
[[noreturn]] void log_all_with(const char* level) {
  if (level != nullptr) {
    setenv("VERBATIM_LOG", level, 1);
  } else {
    unsetenv("VERBATIM_LOG");
  }
  log(LogLevel::error, "e{}", 1);
  log(LogLevel::warn, "w{}", 2);
  log(LogLevel::info, "i{}", 3);
  log(LogLevel::debug, "d{}", 4);
  std::exit(0);
}

TEST(LogDeathTest, WarnIsTheDefault) {
  EXPECT_EXIT(log_all_with(nullptr), testing::ExitedWithCode(0),
              "^verbatim: error: e1\nverbatim: warn: w2\n$");
}

TEST(LogDeathTest, OffSaysNothing) {
  EXPECT_EXIT(log_all_with("off"), testing::ExitedWithCode(0), "^$");
}

TEST(LogDeathTest, DebugSaysAll) {
  EXPECT_EXIT(log_all_with("debug"), testing::ExitedWithCode(0),
              "info: i3\nverbatim: debug: d4\n$");
}

TEST(LogDeathTest, AnUnknownLevelIsTheDefault) {
  EXPECT_EXIT(log_all_with("loud"), testing::ExitedWithCode(0), "warn: w2\n$");
}

}  // namespace
}  // namespace verbatim
