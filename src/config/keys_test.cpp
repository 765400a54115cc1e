#include <cerrno>

#include <gtest/gtest.h>

#include "config/addresses.h"
#include "config/node_config.h"
#include "config/words.h"

namespace verbatim::config {
namespace {

/// Returns what is wrong with the value; empty if nothing is.
std::string fault(std::string_view key, std::string_view value) {
  NodeConfig config;
  const auto applied = apply(key, value, config);
  if (applied) return "";
  EXPECT_EQ(applied.error().code, EINVAL) << key;
  return applied.error().text;
}

std::string text(std::string_view key, std::string_view value) {
  NodeConfig config;
  const auto applied = apply(key, value, config);
  EXPECT_TRUE(applied) << applied.error().text;
  return text_of(*find_key(key), config);
}

TEST(Keys, EachIsReadAsItIsWritten) {
  NodeConfig config;
  for (const Key& key : keys()) {
    const std::string written = text_of(key, config);
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    if (written.empty()) continue;
    EXPECT_EQ(text(key.name, written), written) << key.name;
  }
}

TEST(Keys, ValuesOfEachKind) {
  EXPECT_EQ(text("address", "127.0.0.2 , ::1"), "127.0.0.2,::1");
  EXPECT_EQ(text("node_guid", "0x0200000000000001"), "0200:0000:0000:0001");
  EXPECT_EQ(text("node_guid", "0200000000000001"), "0200:0000:0000:0001");
  EXPECT_EQ(text("node_guid", "0200:00ff:fe00:0002"), "0200:00ff:fe00:0002");
  EXPECT_EQ(text("roce", "v1, v2"), "v1,v2");
  EXPECT_EQ(text("protocol", "iwarp"), "iwarp");
  EXPECT_EQ(text("interface", "enp3s0f1np1"), "enp3s0f1np1");
  EXPECT_EQ(text("vendor_id", "0x02c9"), "0x2c9");
  EXPECT_EQ(text("max_mtu", "1024"), "1024");
  EXPECT_EQ(text("memlock", "yes"), "yes");
  EXPECT_EQ(text("fw_ver", "28.39.2048"), "28.39.2048");
}

TEST(Keys, ImpossibleValuesAreRefusedInWords) {
  EXPECT_NE(fault("address", "localhost"), "");
  EXPECT_EQ(fault("interface", "a/b"), "'a/b' cannot be the name of a network interface");
  EXPECT_EQ(fault("node_guid", "0"),
            "'0' is no GUID: write 16 hexadecimal digits, as in "
            "0200:00ff:fe00:0002");
  EXPECT_NE(fault("node_guid", "0000:0000:0000:0000"), "");
  EXPECT_NE(fault("node_guid", "0200:00ff:fe00:00020"), "");
  EXPECT_EQ(fault("profile", "cx7"), "'cx7' is no profile: verbatim, connectx-7, rxe, tiny are");
  EXPECT_EQ(fault("max_mtu", "1500"), "'1500' is no MTU: 256, 512, 1024, 2048 and 4096 are");
  EXPECT_EQ(fault("memlock", "true"), "'true' is neither yes nor no");
  EXPECT_NE(fault("fw_ver", std::string(kFirmwareMax + 1, '1')), "");
}

TEST(Keys, ALimitIsFromItsLeastToWhatVerbatimHas) {
  for (const LimitField& field : limit_fields()) {
    const std::uint32_t most = kVerbatimLimits.*field.member;
    EXPECT_EQ(fault(field.name, std::to_string(field.least)), "");
    EXPECT_EQ(fault(field.name, std::to_string(most)), "");
    EXPECT_NE(fault(field.name, std::to_string(most + 1)), "") << field.name;
    EXPECT_EQ(fault(field.name, "0").empty(), field.least == 0) << field.name;
    for (const char* wrong : {"-1", "1.5", "a", "1 ", "99999999999999999999"}) {
      EXPECT_NE(fault(field.name, wrong), "") << field.name << wrong;
    }
  }
}

TEST(Keys, AnUnknownOneIsToldTheNearest) {
  EXPECT_EQ(fault("adress", "::1"), "there is no key 'adress': did you mean 'address'?");
  EXPECT_EQ(fault("max_qps", "1"), "there is no key 'max_qps': did you mean 'max_qp'?");
  EXPECT_EQ(fault("guid", "1"), "there is no key 'guid': did you mean 'node_guid'?");
  EXPECT_EQ(fault("colour", "1"), "there is no key 'colour': 'verbatim config' lists them");
}

TEST(EditDistance, CountsLetters) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("adress", "address"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Profiles, NoneHasMoreThanVerbatim) {
  for (const Profile& profile : profiles()) {
    EXPECT_EQ(find_profile(profile.name), &profile);
    for (const LimitField& field : limit_fields()) {
      EXPECT_LE(profile.limits.*field.member, kVerbatimLimits.*field.member)
          << profile.name << " " << field.name;
      EXPECT_GE(profile.limits.*field.member, field.least) << profile.name << " " << field.name;
    }
  }
  EXPECT_EQ(profiles().front().name, kDefaultProfile);
  EXPECT_EQ(find_profile("connectx-7")->limits.max_sge, 30u);
  EXPECT_EQ(find_profile("rxe")->limits.max_srq_sge, 27u);
  EXPECT_EQ(find_profile("none"), nullptr);
}

TEST(Keys, HostIsOfAFabric) {
  NodeConfig config;
  EXPECT_FALSE(config.fabric.empty());
  ASSERT_TRUE(apply("host", "node-7 HCA-1", config));
  ASSERT_TRUE(apply("fabric", "big", config));
  EXPECT_EQ(config.host, "node-7 HCA-1");
  EXPECT_EQ(config.fabric, "big");
  EXPECT_EQ(apply("host", "", config).error().code, EINVAL);
  EXPECT_EQ(apply("host", std::string(65, 'x'), config).error().code, EINVAL);
  EXPECT_EQ(apply("fabric", "a/b", config).error().code, EINVAL);
}

TEST(Keys, FunctionIsBelowTheSocketOfACard) {
  NodeConfig config;
  ASSERT_TRUE(apply("function", "/run/user/1/card.sock/vf2", config));
  EXPECT_EQ(config.function, "/run/user/1/card.sock/vf2");
  for (const char* wrong : {"", "vf2", "/vf2", "card.sock/vf2", "/run/card.sock", "/run/card/up"}) {
    EXPECT_EQ(apply("function", wrong, config).error().code, EINVAL) << wrong;
  }
  EXPECT_EQ(apply("function", "/" + std::string(130, 'x') + "/vf2", config).error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::config
