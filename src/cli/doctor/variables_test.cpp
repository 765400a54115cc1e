#include "cli/doctor/variables.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace verbatim::cli::doctor {
namespace {

bool is_allowed(std::string_view name, const std::string& value) {
  const auto known = known_variables();
  const auto found = std::ranges::find(known, name, &Variable::name);
  if (found == known.end()) throw std::invalid_argument(std::string(name));
  return found->check(value).has_value();
}

struct Value {
  const char* name;
  const char* right;
  const char* wrong;
};

TEST(Variables, EachKnowsWhatItMayBe) {
  for (const Value& value :
       {Value{"VERBATIM_NODE", "a-1.b", "a/b"},
        Value{"VERBATIM_ADDRESS", "127.0.0.2,fd00::2", "localhost"},
        Value{"VERBATIM_ROCE", "v1,v2", "v3"}, Value{"VERBATIM_PROTOCOL", "iwarp", "infiniband"},
        Value{"VERBATIM_FAULT", "loss=1%", "loss=1"},
        Value{"VERBATIM_MPA", "no-crc,markers", "crc"}, Value{"VERBATIM_LOG", "debug", "verbose"},
        Value{"VERBATIM_PATH", "direct", "Direct"},
        Value{"VERBATIM_RNR_GRACE", "1000000", "1000001"},
        Value{"VERBATIM_EARLY_RETRY", "off", "no"}, Value{"VERBATIM_BUSY_POLL", "0", "10us"},
        Value{"VERBATIMD", "/bin/sh", "/nowhere/verbatimd"}}) {
    EXPECT_TRUE(is_allowed(value.name, value.right)) << value.name << "=" << value.right;
    EXPECT_FALSE(is_allowed(value.name, value.wrong)) << value.name << "=" << value.wrong;
  }
}

TEST(Variables, TheNearestNameIsFound) {
  EXPECT_EQ(nearest_variable("VERBATIM_NOED"), "VERBATIM_NODE");
  EXPECT_EQ(nearest_variable("VERBATIM_ADRESS"), "VERBATIM_ADDRESS");
  EXPECT_EQ(nearest_variable("VERBATIM_ADDRESSES"), "VERBATIM_ADDRESS");
  EXPECT_EQ(nearest_variable("VERBATM_PATH"), "VERBATIM_PATH");
  EXPECT_EQ(nearest_variable("verbatim_log"), "VERBATIM_LOG");
  EXPECT_EQ(nearest_variable("HOME"), "");
  EXPECT_EQ(nearest_variable("VERBATIM_SOMETHING_ELSE"), "");
}

}  // namespace
}  // namespace verbatim::cli::doctor
