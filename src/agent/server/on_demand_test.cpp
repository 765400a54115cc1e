#include "agent/server/on_demand.h"

#include <gtest/gtest.h>

#include "wire/mad/rdma_ip_header.h"

namespace verbatim::agent {
namespace {

constexpr ServiceId kRds = wire::service_id_of(PortSpace::tcp, 18634);
constexpr TimeNs kNow = 5 * kSecond;

struct Starts {
  std::vector<std::vector<std::string>> words;
  bool fails = false;
  OnDemand on_demand{[this](const std::vector<std::string>& asked) -> Result<void> {
    words.push_back(asked);
    if (fails) return refuse(ENOENT, "there is no such program");
    return {};
  }};
};

TEST(OnDemand, StartsADaemonForItsServiceAlone) {
  Starts starts;
  EXPECT_FALSE(starts.on_demand.on_request(wire::service_id_of(PortSpace::tcp, 18635), kNow));
  EXPECT_FALSE(starts.on_demand.on_request(wire::service_id_of(PortSpace::udp, 18634), kNow));
  EXPECT_TRUE(starts.words.empty());
  EXPECT_TRUE(starts.on_demand.on_request(kRds, kNow));
  EXPECT_EQ(starts.words, (std::vector<std::vector<std::string>>{{"rds", "up", "--until-idle"}}));
}

TEST(OnDemand, RequestsWhileItStartsStartNoOther) {
  Starts starts;
  for (TimeNs at = kNow; at < kNow + OnDemand::kBetweenStarts; at += kSecond)
    EXPECT_TRUE(starts.on_demand.on_request(kRds, at));
  EXPECT_EQ(starts.words.size(), 1u);
  EXPECT_TRUE(starts.on_demand.on_request(kRds, kNow + OnDemand::kBetweenStarts));
  EXPECT_EQ(starts.words.size(), 2u);
}

TEST(OnDemand, OneThatCannotBeStartedIsNotAwaited) {
  Starts starts;
  starts.fails = true;
  EXPECT_FALSE(starts.on_demand.on_request(kRds, kNow));
  EXPECT_FALSE(starts.on_demand.on_request(kRds, kNow + kSecond));
  EXPECT_EQ(starts.words.size(), 1u);
}

}  // namespace
}  // namespace verbatim::agent
