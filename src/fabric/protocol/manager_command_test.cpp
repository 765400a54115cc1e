#include "fabric/protocol/manager_command.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::fabric::protocol {
namespace {

using Words = std::vector<std::string>;

TEST(ManagerCommand, IsNoneOrOpensmWithItsOptions) {
  const struct {
    const char* text;
    bool runs;
    Words options;
  } cases[] = {
      {"none", false, {}},
      {"opensm", true, {}},
      {"opensm -R ftree -Q -P FILE", true, {"-R", "ftree", "-Q", "-P", "FILE"}},
      {" opensm\t--routing_engine=updn ", true, {"--routing_engine=updn"}},
      {"opensm -P 'my file' -Y a\" \"b ''", true, {"-P", "my file", "-Y", "a b", ""}},
  };
  for (const auto& one : cases) {
    const auto parsed = parse_manager_command(one.text);
    ASSERT_TRUE(parsed) << one.text;
    EXPECT_EQ(*parsed, (ManagerCommand{.runs = one.runs, .options = one.options})) << one.text;
  }
}

TEST(ManagerCommand, RefusesWhatTheFabricSetsItself) {
  for (const char* text : {"", "  ", "opensmm", "none -R ftree", "/usr/sbin/opensm", "opensm 'x",
                           "opensm -f log", "opensm -flog", "opensm --log_file=x", "opensm -g 1",
                           "opensm --guid 1", "opensm -B", "opensm -Q --daemon", "opensm --once"}) {
    const auto parsed = parse_manager_command(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, EINVAL) << text;
  }
  EXPECT_TRUE(parse_manager_command("opensm --log_limit 5"));
}

}  // namespace
}  // namespace verbatim::fabric::protocol
