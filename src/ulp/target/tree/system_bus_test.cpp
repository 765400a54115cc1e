#include "ulp/target/tree/system_bus.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::target {
namespace {

TEST(SystemBus, WelcomesWhoeverConnects) {
  const struct {
    std::string_view line, answer;
  } rows[] = {{std::string_view("\0AUTH EXTERNAL 30", 17), "OK "},
              {"AUTH EXTERNAL", "DATA"},
              {"DATA", "OK "},
              {"AUTH", "REJECTED EXTERNAL"},
              {"AUTH DBUS_COOKIE_SHA1 x", "REJECTED EXTERNAL"},
              {"NEGOTIATE_UNIX_FD", "AGREE_UNIX_FD"},
              {"what?", "ERROR"}};
  for (const auto& row : rows) {
    const std::string answer = bus_line_answer(row.line);
    EXPECT_TRUE(answer.starts_with(row.answer) && answer.ends_with("\r\n")) << row.line;
  }
  EXPECT_EQ(bus_line_answer("BEGIN"), "");
}

/// A call with one field, MEMBER, and no body.
std::string call_of(std::string member, char flags = 0) {
  std::string field = {3, 1, 's', 0, static_cast<char>(member.size()), 0, 0, 0};
  field += member + '\0';
  std::string call = {'l', 1, flags, 1, 0, 0, 0, 0, 9, 0, 0, 0};
  call += {static_cast<char>(field.size()), 0, 0, 0};
  call += field;
  call.resize((call.size() + 7) / 8 * 8);
  return call;
}

TEST(SystemBus, AnswersHelloAndRefusesTheRest) {
  std::string in = call_of("Hello") + call_of("NameHasOwner") + call_of("AddMatch", 1);
  std::string answer;
  ASSERT_TRUE(take_bus_message(in, 1, answer));
  EXPECT_EQ(answer[1], 2) << "a method's return";
  EXPECT_NE(answer.find(":1.1"), std::string::npos);
  ASSERT_TRUE(take_bus_message(in, 2, answer));
  EXPECT_EQ(answer[1], 3) << "an error";
  EXPECT_NE(answer.find("ServiceUnknown"), std::string::npos);
  ASSERT_TRUE(take_bus_message(in, 3, answer));
  EXPECT_EQ(answer, "") << "no reply is expected";
  EXPECT_EQ(in, "");
}

TEST(SystemBus, WaitsForTheWholeMessage) {
  const std::string whole = call_of("Hello");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::string in = whole.substr(0, bytes), answer;
    EXPECT_FALSE(take_bus_message(in, 1, answer)) << bytes;
    EXPECT_EQ(in.size(), bytes);
  }
}

}  // namespace
}  // namespace verbatim::ulp::target
