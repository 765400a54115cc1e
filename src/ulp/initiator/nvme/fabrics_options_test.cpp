#include "ulp/initiator/nvme/fabrics_options.h"

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace verbatim::ulp::initiator {
namespace {

constexpr const char* kPlain = "nqn=nqn.2026-01.test:d,transport=rdma,traddr=10.0.2.15";

TEST(FabricsOptions, WhatNvmeCliWrites) {
  const auto options = parse_fabrics_options(
      "nqn=nqn.2026-01.test:d,transport=rdma,traddr=10.0.2.15,trsvcid=4421,hostnqn=nqn.h,"
      "hostid=22222222-2222-2222-2222-222222222222,ctrl_loss_tmo=-1,nr_io_queues=1,queue_size=16,"
      "keep_alive_tmo=7,reconnect_delay=3,host_traddr=10.0.2.1,duplicate_connect\n");
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->subsystem, "nqn.2026-01.test:d");
  EXPECT_EQ(options->host, "nqn.h");
  EXPECT_EQ(options->to.text(), "10.0.2.15:4421");
  EXPECT_EQ(options->place(), "traddr=10.0.2.15,trsvcid=4421,host_traddr=10.0.2.1");
  EXPECT_EQ(options->queue_entries, 16u);
  EXPECT_EQ(options->keep_alive_s, 7);
  EXPECT_EQ(options->reconnect_s, 3);
  EXPECT_EQ(options->loss_s, -1);
  EXPECT_TRUE(options->may_repeat);
  EXPECT_FALSE(options->is_discovery);
}

TEST(FabricsOptions, WhatIsNotSaidIsAsWithLinux) {
  const auto options = parse_fabrics_options(kPlain);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->to.text(), "10.0.2.15:4420");
  EXPECT_EQ(options->queue_entries, 128u);
  EXPECT_EQ(options->loss_s, 600);
  EXPECT_EQ(options->reconnect_s, 10);
  EXPECT_EQ(options->keep_alive_s, 5);
}

TEST(FabricsOptions, TheDiscoveryServiceIsKnownByName) {
  const auto options = parse_fabrics_options(
      "transport=rdma,traddr=fe80::1,nqn=nqn.2014-08.org.nvmexpress.discovery");
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->is_discovery);
}

TEST(FabricsOptions, Refusals) {
  const struct {
    std::string text;
    const char* words;
  } rows[] = {
      {"", "transport, nqn and traddr must be there"},
      {"garbage", "'garbage' is no option"},
      {"transport=tcp,traddr=10.0.2.15,nqn=n", "'tcp' is no value of transport"},
      {"transport=rdma,nqn=n", "must be there"},
      {"transport=rdma,nqn=n,traddr=host", "no IP address"},
      {std::string(kPlain) + ",trsvcid=0", "no IP address"},
      {std::string(kPlain) + ",queue_size=5", "'5' is no value of queue_size"},
      {std::string(kPlain) + ",nr_io_queues=0", "'0' is no value of nr_io_queues"},
      {std::string(kPlain) + ",ctrl_loss_tmo=-2", "'-2' is no value of ctrl_loss_tmo"},
      {std::string(kPlain) + ",hostid=2222", "'2222' is no value of hostid"},
      {std::string(kPlain) + ",nqn=" + std::string(224, 'n'), "is no value of nqn"},
  };
  for (const auto& row : rows) {
    const auto options = parse_fabrics_options(row.text);
    ASSERT_FALSE(options) << row.text;
    EXPECT_EQ(options.error().code, EINVAL);
    EXPECT_NE(options.error().text.find(row.words), std::string::npos) << options.error().text;
  }
}

}  // namespace
}  // namespace verbatim::ulp::initiator
