#include "config/entries.h"

#include <gtest/gtest.h>

namespace verbatim::config {
namespace {

using Texts = std::vector<std::string>;

Texts entries(std::string_view text) {
  Texts found;
  for (const auto& entry : parse_entries(text).entries) {
    found.push_back(std::to_string(entry.line) + " " + entry.key + "=" + entry.value);
  }
  return found;
}

Texts faults(std::string_view text) {
  Texts found;
  for (const auto& fault : parse_entries(text).faults) {
    found.push_back(std::to_string(fault.line) + " " + fault.text);
  }
  return found;
}

TEST(Entries, LinesOfKeyAndValue) {
  EXPECT_EQ(entries("address = 127.0.0.2, ::1\n\n  roce=v2\t\r\n"),
            (Texts{"1 address=127.0.0.2, ::1", "3 roce=v2"}));
  EXPECT_EQ(entries("a = b = c"), Texts{"1 a=b = c"});
  EXPECT_TRUE(parse_entries("").entries.empty());
}

TEST(Entries, CommentsBeginALineOrFollowABlank) {
  EXPECT_EQ(entries("# all\n; this\na = b # and that\nc = d;e#f ; g"),
            (Texts{"3 a=b", "4 c=d;e#f"}));
  EXPECT_EQ(faults("# all\n \t# too\n"), Texts());
}

TEST(Entries, FaultsNameTheirLine) {
  EXPECT_EQ(faults("a b\n[node]\na = 1\na=2\nb =\n= 1\n"),
            (Texts{"1 'a b' is not 'key = value'",
                   "2 '[node]': there are no sections, for a file is of one node",
                   "4 a is set in line 3 already",
                   "5 b has no value: remove the line to leave it as it is",
                   "6 '= 1' is not 'key = value'"}));
}

TEST(Entries, OnlyPrintableText) {
  EXPECT_EQ(faults(std::string_view("a = \0b", 6)),
            Texts{"1 a character that is not printable ASCII"});
  EXPECT_EQ(faults("a = \xc3\xa4"), Texts{"1 a character that is not printable ASCII"});
  EXPECT_EQ(faults("# \xc3\xa4 in a comment"), Texts());
}

TEST(Entries, EverythingIsBounded) {
  EXPECT_EQ(faults(std::string(kFileBytesMax + 1, '\n')),
            Texts{"0 65537 bytes are too many: a node's file has at most 65536"});
  EXPECT_TRUE(faults(std::string(kFileBytesMax, '\n')).empty());
  EXPECT_EQ(faults("a = " + std::string(kLineBytesMax - 3, 'b')),
            Texts{"1 1025 bytes are too long for a line: at most 1024"});
  EXPECT_TRUE(faults("a = " + std::string(kLineBytesMax - 4, 'b')).empty());
  std::string many;
  for (std::size_t i = 0; i <= kEntriesMax; ++i) many += "k" + std::to_string(i) + " = 1\n";
  EXPECT_EQ(faults(many), Texts{"257 more than 256 keys"});
  std::string wrong;
  for (std::size_t i = 0; i <= kFaultsMax; ++i) wrong += "wrong\n";
  EXPECT_EQ(faults(wrong).size(), kFaultsMax);
}

}  // namespace
}  // namespace verbatim::config
