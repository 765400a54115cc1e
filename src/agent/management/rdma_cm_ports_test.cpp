#include "agent/management/rdma_cm_ports.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

constexpr int kA = 1;
constexpr int kB = 2;

struct Wanted {
  const char* address;
  std::uint16_t port = 7471;
  bool reuses_address = false;
  bool own_family_only = false;
  PortSpace space = PortSpace::tcp;
};

PortBinding binding(const Wanted& wanted) {
  static std::uint64_t last_handle = 0;
  const auto address = SocketAddress::parse(wanted.address, wanted.port).value();
  return {.handle = ++last_handle,
          .port_space = wanted.space,
          .address = address,
          .reuses_address = wanted.reuses_address,
          .own_family_only = wanted.own_family_only || address.is_ipv4()};
}

class PortTableTest : public testing::Test {
 protected:
  int bind(const Wanted& wanted, int program = kA) {
    last_ = binding(wanted);
    const auto port = table_.bind(program, last_, false);
    return port ? 0 : port.error().code;
  }
  int listen(int program = kA) {
    const auto listening = table_.listen(program, last_.handle);
    return listening ? 0 : listening.error().code;
  }
  /// Returns the program that listens, or 0.
  int finds(const char* address, std::uint16_t port = 7471, PortSpace space = PortSpace::tcp) {
    const auto found = table_.find(space, port, SocketAddress::parse(address).value());
    return found ? found->program : 0;
  }
  PortTable table_;
  PortBinding last_;
};

TEST_F(PortTableTest, AnAddressIsOnesOwn) {
  EXPECT_EQ(bind({"10.0.0.1"}), 0);
  EXPECT_EQ(bind({"10.0.0.1"}, kB), EADDRINUSE);
  EXPECT_EQ(bind({"10.0.0.2"}, kB), 0);
  EXPECT_EQ(bind({"10.0.0.1", 7472}, kB), 0);
  EXPECT_EQ(bind({.address = "10.0.0.1", .space = PortSpace::udp}, kB), 0);
}

TEST_F(PortTableTest, AWildcardIsEveryAddressOfItsFamily) {
  EXPECT_EQ(bind({"0.0.0.0"}), 0);
  EXPECT_EQ(bind({"10.0.0.1"}, kB), EADDRNOTAVAIL);
  EXPECT_EQ(bind({.address = "::", .own_family_only = true}, kB), 0);
  EXPECT_EQ(bind({.address = "::1", .own_family_only = true}, kA), EADDRNOTAVAIL);
}

TEST_F(PortTableTest, AnUnrestrictedIpv6WildcardSpansBothFamilies) {
  EXPECT_EQ(bind({"::"}), 0);
  EXPECT_EQ(bind({"0.0.0.0"}, kB), EADDRNOTAVAIL);
  EXPECT_EQ(listen(), EINVAL);
}

TEST_F(PortTableTest, ReusersShareUntilOneListens) {
  EXPECT_EQ(bind({.address = "10.0.0.1", .reuses_address = true}), 0);
  const auto first = last_.handle;
  EXPECT_EQ(bind({.address = "10.0.0.1", .reuses_address = true}, kB), 0);
  EXPECT_EQ(listen(kB), EADDRINUSE);
  table_.release(kA, first);
  EXPECT_EQ(listen(kB), 0);
  EXPECT_EQ(bind({.address = "10.0.0.1", .reuses_address = true}), EADDRINUSE);
}

TEST_F(PortTableTest, LowPortsArePrivileged) {
  EXPECT_EQ(bind({"10.0.0.1", 1023}), EACCES);
  EXPECT_EQ(*table_.bind(kA, binding({"10.0.0.1", 1023}), true), 1023);
}

TEST_F(PortTableTest, PortZeroGivesEachAnother) {
  const auto one = table_.bind(kA, binding({"10.0.0.1", 0}), false);
  const auto two = table_.bind(kA, binding({"10.0.0.1", 0}), false);
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
  EXPECT_GE(*one, 32'768);
}

TEST_F(PortTableTest, FreePortsRunOutAndComeBack) {
  for (int i = 32'768; i <= 60'999; ++i) ASSERT_EQ(bind({"10.0.0.1", 0}), 0);
  EXPECT_EQ(bind({"10.0.0.1", 0}), EADDRNOTAVAIL);
  table_.release(kA, last_.handle - 1);
  EXPECT_EQ(bind({"10.0.0.1", 0}), 0);
}

TEST_F(PortTableTest, FindsTheListenerThatFitsBest) {
  bind({"10.0.0.1"}, kA);
  EXPECT_EQ(finds("10.0.0.1"), 0) << "bound, but not listening";
  EXPECT_EQ(listen(kA), 0);
  bind({.address = "0.0.0.0", .port = 7472}, kB);
  EXPECT_EQ(listen(kB), 0);
  EXPECT_EQ(finds("10.0.0.1"), kA);
  EXPECT_EQ(finds("10.0.0.2"), 0);
  EXPECT_EQ(finds("10.0.0.2", 7472), kB);
  EXPECT_EQ(finds("fe80::1", 7472), 0);
  EXPECT_EQ(finds("10.0.0.1", 7471, PortSpace::udp), 0);
}

TEST_F(PortTableTest, AProgramsEndFreesAllItHad) {
  bind({"10.0.0.1"});
  bind({"10.0.0.2"});
  bind({"10.0.0.3"}, kB);
  table_.release_all(kA);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(bind({"10.0.0.1"}, kB), 0);
}

TEST_F(PortTableTest, WhatAnEarlierAgentGrantedIsTakenAsItIs) {
  PortBinding granted = binding({"10.0.0.1", 1023});
  granted.listens = true;
  table_.restore(kA, granted);
  EXPECT_EQ(finds("10.0.0.1", 1023), kA);
}

TEST(PortOfService, KnowsThePortSpaces) {
  const auto tcp_port = wire::service_id_of(PortSpace::tcp, 7471);
  EXPECT_EQ(port_of_service(tcp_port), (std::pair{PortSpace::tcp, std::uint16_t{7471}}));
  EXPECT_FALSE(port_of_service(wire::ServiceId{0x0107'1d2f}));
  EXPECT_FALSE(port_of_service(wire::ServiceId{0x1'0106'1d2f}));
}

}  // namespace
}  // namespace verbatim::agent
