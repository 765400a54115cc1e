#include "cli/text/status_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

TEST(StatusText, NodeWithoutPrograms) {
  const auto node = Json::parse(R"({"node": "a", "addresses": ["127.0.0.2"], "interface": "lo",
      "agent_pid": 12, "version": "0.1.0", "programs": []})");
  EXPECT_EQ(status_text(node),
            "node a: 127.0.0.2 on lo, agent is process 12 (verbatimd 0.1.0)\n"
            "  no programs\n");
}

TEST(StatusText, ProgramsQueuePairsAndSignsOfTrouble) {
  const auto node = Json::parse(R"({"node": "a", "addresses": [], "interface": "lo",
      "agent_pid": 12, "version": "0.1.0", "programs": [{"pid": 34, "name": "ib_write_bw",
      "counters": {"packets_sent": 5, "packets_received": 6, "bytes_sent": 700,
                   "bytes_received": 80, "icrc_errors": 0},
      "direct": {"messages_sent": 9012, "messages_received": 3456},
      "queue_pairs": [{"qpn": 16385, "type": "RC", "state": "RTS", "dest_qpn": 16386,
          "dest_gid": "::ffff:127.0.0.3", "counters": {"packets_sent": 5, "packets_received": 6,
          "retransmissions": 2, "timeouts": 0}},
         {"qpn": 16387, "type": "UD", "state": "RTS", "dest_qpn": 0, "dest_gid": "::",
          "counters": {}}]}]})");
  const auto text = status_text(node);
  EXPECT_NE(text.find("34  ib_write_bw            2             5         6         700        80"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("80                  9012      3456"), std::string::npos) << text;
  EXPECT_NE(text.find("16385       34  RC    RTS    16386     ::ffff:127.0.0.3"), std::string::npos)
      << text;
  EXPECT_NE(text.find("16387       34  UD    RTS    -         - "), std::string::npos) << text;
  EXPECT_NE(text.find("16385  retransmissions      2"), std::string::npos) << text;
  EXPECT_EQ(text.find("timeouts"), std::string::npos) << text;
}

TEST(StatusText, FaultsOfEachProgramAndAll) {
  const auto node = Json::parse(R"({"node": "a", "addresses": [], "interface": "lo",
      "agent_pid": 12, "version": "0.1.0", "faults": {"lost": 12, "delayed": 3, "overflowed": 0},
      "programs": [{"pid": 34, "name": "ib_write_bw",
                    "faults": {"lost": 10, "delayed": 3, "overflowed": 0}},
                   {"pid": 35, "name": "cmtime"}]})");
  EXPECT_NE(status_text(node).find("\n\n"
                                   "  process  program      packets lost  delayed  overflowed\n"
                                   "  34       ib_write_bw            10        3           0\n"
                                   "  all                             12        3           0\n"),
            std::string::npos)
      << status_text(node);
}

TEST(StatusText, ServicesShowWhatIsTheirOwn) {
  const auto service = Json::parse(R"({"service": "target", "name": "default", "process": 7,
      "seconds": 12, "sessions": [{"from": "a"}, {"from": "b"}], "refused": 0,
      "iscsi": {"targets": [{"name": "t"}], "seen": true}, "nothing": "", "none": {}})");
  EXPECT_EQ(status_text(service),
            "service target 'default': process 7, for 12 s\n"
            "  sessions  2\n"
            "  refused   0\n"
            "  iscsi     targets 1, seen true\n");
}

TEST(StatusText, WhatDoesNotAnswerIsShownAsSuch) {
  EXPECT_EQ(status_text({{"node", "a"}, {"error", "the agent (process 5) does not answer"}}),
            "node a: the agent (process 5) does not answer\n");
  EXPECT_EQ(status_text({{"service", "rds"}, {"name", "x"}, {"error", "nothing"}}),
            "service rds 'x': nothing\n");
}

TEST(StatusText, MissingFieldsAreShownAsSuch) {
  EXPECT_NE(status_text(Json::object()).find("node -:"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::cli
