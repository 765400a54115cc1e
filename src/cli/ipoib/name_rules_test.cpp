#include "cli/ipoib/name_rules.h"

#include <gtest/gtest.h>

namespace verbatim::cli {
namespace {

const RuledInterface kInterface{"00:00:00:00:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2", 2};

std::string named(std::string_view rules) {
  return name_by_rules(rules, kInterface).value_or("none");
}

TEST(NameRules, DebiansOwnLine) {
  EXPECT_EQ(named("# This is a sample udev rules file.\n"
                  "# ACTION==\"add\", NAME=\"no\"\n"
                  "ACTION==\"add\", SUBSYSTEM==\"net\", DRIVERS==\"?*\", ATTR{type}==\"32\", "
                  "ATTR{address}==\"?*00:02:c9:03:00:31:78:f2\", NAME=\"mlx4_ib3\"\n"),
            "mlx4_ib3");
}

TEST(NameRules, AllKeysMatchAndTheLastNameCounts) {
  struct Case {
    std::string_view rules, name;
  };
  for (const auto& [rules, name] :
       {Case{"ATTR{type}==\"32\", NAME=\"a\"\nATTR{dev_id}==\"0x1\",NAME=\"b\"", "b"},
        Case{"ATTR{dev_id}==\"0x1\", NAME=\"b\"\nATTR{dev_id}==\"0x0\", NAME=\"a\"", "b"},
        Case{"ATTR{dev_port}==\"0|1\", NAME=\"c\"", "c"},
        Case{"ATTR{type}==\"1\", NAME=\"a\"", "none"}, Case{"ATTR{type}!=\"1\", NAME:=\"d\"", "d"},
        Case{"KERNEL==\"ib*\", NAME=\"a\"", "none"},  // Not known.
        Case{"ATTR{type}==\"32\", \\\n  NAME=\"e\"", "e"},
        Case{"ATTR{address}==\"*78:f3\", NAME=\"a\"", "none"}, Case{"NAME=\"open", "none"},
        Case{"nonsense", "none"}, Case{"", "none"}})
    EXPECT_EQ(named(rules), name) << rules;
}

}  // namespace
}  // namespace verbatim::cli
