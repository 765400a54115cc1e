#include "ulp/disk/target.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::disk {
namespace {

std::string place_of(const std::string& url) {
  const auto target = parse_target(url, {.iqn = "iqn.2026-01.test:i", .nqn = "nqn.2026-01.test:h"});
  if (!target) return target.error().text;
  return std::get<rdma::IpService>(target->place).address.text();
}

TEST(DiskTarget, Urls) {
  EXPECT_EQ(place_of("iser://10.0.0.1/iqn.2026-01.test:d/0"), "10.0.0.1:3260");
  EXPECT_EQ(place_of("iser://10.0.0.1:99/iqn.2026-01.test:d/16383"), "10.0.0.1:99");
  EXPECT_EQ(place_of("nvme://[fd77::2]/nqn.2026-01.test:d/1"), "[fd77::2]:4420");
  EXPECT_EQ(place_of("nvme://[fd77::2]:99/nqn.2026-01.test:d/1"), "[fd77::2]:99");
  EXPECT_EQ(place_of("nvme://127.0.0.2/nqn.2026-01.test:with/slashes/1"), "127.0.0.2:4420");
}

TEST(DiskTarget, SrpIsWhatSrpDaemonWrites) {
  EXPECT_EQ(place_of("srp://id_ext=1,ioc_guid=2,dest=10.0.0.1:4242"), "10.0.0.1:4242");
  EXPECT_EQ(place_of("srp://id_ext=1,ioc_guid=2,dest=[fd77::2]:9/255"), "[fd77::2]:9");
  const auto target = parse_target(
      "srp://id_ext=0000000000000001,ioc_guid=0000000000000002,dgid="
      "fe800000000000000200000000100003,pkey=8001,service_id=0000000000000005",
      {});
  ASSERT_TRUE(target);
  const auto& place = std::get<rdma::InfinibandService>(target->place);
  EXPECT_EQ(place.service, 5u);
  EXPECT_EQ(place.pkey, PKey{0x8001});
  EXPECT_EQ(gid_text(place.gid), "fe80::200:0:10:3");
  EXPECT_EQ(place_of("srp://10.0.0.1"), "'10.0.0.1' is no word of an SRP target");
  EXPECT_EQ(place_of("srp://id_ext=1,ioc_guid=2,dest=10.0.0.1:4242/256"),
            "a logical unit's number is 0 to 255");
}

TEST(DiskTarget, WhatIsNoUrlIsSaid) {
  const std::string no_disk = "is no disk: iser://HOST[:PORT]/IQN/LUN or ";
  const std::string not_iser = " is not iser://HOST[:PORT]/IQN/LUN";
  EXPECT_TRUE(place_of("").contains(no_disk));
  EXPECT_TRUE(place_of("10.0.0.1").contains(no_disk));
  EXPECT_TRUE(place_of("http://10.0.0.1/x/0").contains(no_disk));
  for (const char* const rest :
       {"", "10.0.0.1", "10.0.0.1/iqn.2026-01.test:d", "/iqn.2026-01.a:d/0",
        "10.0.0.1:x/iqn.2026-01.test:d/0", "10.0.0.1/iqn.2026-01.test:d/x",
        "[fd77::2/iqn.2026-01.test:d/0", "10.0.0.1:99999/iqn.2026-01.a:d/0"})
    EXPECT_TRUE(place_of(std::string("iser://") + rest).contains(not_iser)) << rest;
  EXPECT_TRUE(place_of("iser://10.0.0.1/disk/0").contains("'disk' is no iSCSI name"));
  EXPECT_TRUE(place_of("iser://10.0.0.1/iqn.2026-01.test:d/16384").contains("at most 16383"));
  EXPECT_TRUE(place_of("nvme://10.0.0.1/disk/1").contains("'disk' is no NQN"));
}

TEST(DiskTarget, PathsAreInitiatorPortsOfTheirOwn) {
  const Identity self{.iqn = "iqn.2026-01.test:i", .nqn = "nqn.2026-01.test:h"};
  const std::string port = "srp://id_ext=1,ioc_guid=2,dest=10.0.0.";
  const auto refusal = [&](const std::vector<std::string>& urls) {
    const auto targets = parse_paths(urls, self);
    return targets ? std::to_string(targets->size()) : targets.error().text;
  };
  EXPECT_EQ(refusal({port + "1:4242", "srp://id_ext=1,ioc_guid=3,dest=10.0.0.2:4242"}), "2");
  EXPECT_EQ(refusal({port + "1:4242", port + "2:4242,initiator_ext=2"}), "2");
  EXPECT_TRUE(refusal({port + "1:4242", port + "2:4242"}).contains("say initiator_ext=2 in it"));
  EXPECT_EQ(refusal(std::vector<std::string>(9, "nvme://10.0.0.1/nqn.2026-01.test:d/1")),
            "9 paths: 8 are the most");
}

TEST(DiskTarget, WeHaveNames) {
  const Identity self = own_identity();
  EXPECT_TRUE(self.iqn.starts_with("iqn.") || self.iqn.starts_with("eui.") ||
              self.iqn.starts_with("naa."));
  EXPECT_TRUE(self.nqn.starts_with("nqn."));
  EXPECT_EQ(self.session >> 40, 0x80u);
  EXPECT_EQ(own_identity().nqn, self.nqn);
}

}  // namespace
}  // namespace verbatim::ulp::disk
