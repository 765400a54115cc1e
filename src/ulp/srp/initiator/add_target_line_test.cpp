#include "ulp/srp/initiator/add_target_line.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::ulp::srp {
namespace {

constexpr const char* kLine =
    "id_ext=0200000000100002,ioc_guid=0200000000100001,dgid=fe800000000000000200000000100003,"
    "pkey=ffff,service_id=0200000000100005";

TEST(SrpAddTarget, AsSrpDaemonWritesIt) {
  const auto target = parse_add_target(kLine);
  ASSERT_TRUE(target);
  EXPECT_FALSE(target->is_by_ip());
  EXPECT_EQ(target->extension, 0x0200000000100002u);
  EXPECT_EQ(target->guid, 0x0200000000100001u);
  EXPECT_EQ(gid_text(*target->gid), "fe80::200:0:10:3");
  EXPECT_EQ(*target->service, 0x0200000000100005u);
  EXPECT_EQ(text_of(*target), kLine);
  const InitiatorSettings settings = settings_for(*target, 7);
  EXPECT_EQ(settings.form, LoginForm::infiniband_cm);
  EXPECT_EQ(text_of(settings.target), "0x02000000001000020200000000100001");
  EXPECT_EQ(text_of(settings.initiator), "0x00000000000000000000000000000007");
}

TEST(SrpAddTarget, WhatItsConfigurationAdds) {
  const auto target = parse_add_target(std::string(kLine) +
                                       ",initiator_ext=0300000000000000,queue_size=128,"
                                       "max_cmd_per_lun=64,max_sect=128,tl_retry_count=2,"
                                       "io_class=0100,max_it_iu_size=4148\n");
  ASSERT_TRUE(target);
  EXPECT_EQ(text_of(*target), std::string(kLine) + ",initiator_ext=0300000000000000");
  const InitiatorSettings settings = settings_for(*target, 7);
  EXPECT_EQ(text_of(settings.initiator), "0x03000000000000000000000000000007");
  EXPECT_EQ(settings.requests, 66);
  EXPECT_EQ(settings.transfer_bytes_max, 65536u);
  EXPECT_EQ(settings.request_bytes, 4148u);
}

TEST(SrpAddTarget, ByIp) {
  for (const char* const place : {"10.0.0.1:4242", "[fd00::1]:4242"}) {
    const std::string line =
        fmt::format("id_ext=0200000000100002,ioc_guid=0200000000100001,dest={}", place);
    const auto target = parse_add_target(line);
    ASSERT_TRUE(target);
    EXPECT_EQ(target->to.text(), place);
    EXPECT_EQ(text_of(*target), line);
    EXPECT_EQ(settings_for(*target, 7).form, LoginForm::rdma_cm);
  }
}

TEST(SrpAddTarget, WhatIsWrongIsNamed) {
  const struct {
    const char* line;
    const char* words;
  } rows[] = {
      {"", "missing: id_ext, ioc_guid, dgid, pkey, service_id (or dest=IP:PORT instead)"},
      {"id_ext=1,dest=10.0.0.1:4242", "missing: ioc_guid"},
      {"id_ext=1,ioc_guid=1,nonsense=1", "'nonsense=1' is no word of an SRP target"},
      {"id_ext", "'id_ext' is no word of an SRP target"},
      {"id_ext=zz", "'zz' is no value of id_ext"},
      {"id_ext=11112222333344445", "'11112222333344445' is no value of id_ext"},
      {"dgid=fe80", "'fe80' is no value of dgid"},
      {"pkey=12345", "'12345' is no value of pkey"},
      {"dest=10.0.0.1", "'10.0.0.1' is no value of dest"},
      {"dest=host:1", "'host:1' is no value of dest"},
      {"queue_size=3", "'3' is no value of queue_size"},
      {"max_sect=0", "'0' is no value of max_sect"},
      {"io_class=ff00", "'ff00' is no value of io_class"},
      {"ch_count=x", "'x' is no value of ch_count"},
  };
  for (const auto& row : rows) {
    const auto target = parse_add_target(row.line);
    ASSERT_FALSE(target) << row.line;
    EXPECT_EQ(target.error().code, EINVAL);
    EXPECT_EQ(target.error().text, row.words);
  }
}

}  // namespace
}  // namespace verbatim::ulp::srp
