// One program may contain Verbatim's own `base` and the C++ library, whose types `Error`, `Result`
// and `Gid` have the same names. Built without optimisation: inline functions of both are emitted
// then, and the linker keeps one of two that have one name.
#include <gtest/gtest.h>
#include <verbatim/verbatim.h>

#include "base_side.h"

namespace {

const std::string kLong(200, 'x');  // On the heap, so that a wrong destructor is found.

TEST(BesideBase, ErrorsOfBothAreMadeAndDestroyed) {
  EXPECT_EQ(refusal_of_base(kLong.c_str()), kLong);
  try {
    throw verbatim::Error({.call = verbatim::Call::listen, .code = EPERM});
  } catch (const verbatim::Error& error) {
    EXPECT_EQ(error.failure().code, EPERM);
    EXPECT_NE(std::string(error.what()), "");
  }
  EXPECT_EQ(refusal_of_base(kLong.c_str()), kLong);
}

TEST(BesideBase, ResultsOfBothHoldTheirOwnErrors) {
  const verbatim::Result<std::string> good = kLong;
  EXPECT_EQ(good.value(), kLong);
  const verbatim::Result<std::string> bad = verbatim::Failure{.code = EPERM};
  EXPECT_FALSE(bad.has_value());
  EXPECT_EQ(refusal_of_base("short"), "short");
}

TEST(BesideBase, GidsOfBothAreCompared) {
  EXPECT_EQ(gid_of_base(), "empty");
  EXPECT_TRUE(verbatim::Gid{} == verbatim::Gid{});
}

}  // namespace
