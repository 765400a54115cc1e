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
  ServiceRange services{};
};

PortBinding binding(const Wanted& wanted) {
  static std::uint64_t last_handle = 0;
  const auto address = SocketAddress::parse(wanted.address, wanted.port).value();
  return {.handle = ++last_handle,
          .port_space = wanted.space,
          .services = wanted.services,
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
    const auto found =
        table_.find(wire::service_id_of(space, port), SocketAddress::parse(address).value());
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

constexpr std::uint64_t kSrp = 0x0200'0000'0010'0000;
constexpr std::uint64_t kIpoib = 0x1000'0000'0000'0000;  // Below: a queue pair's number.
constexpr std::uint64_t kWhole = ~std::uint64_t{0};
constexpr std::uint64_t kAnyNumber = 0xffff'ffff'ff00'0000;

TEST_F(PortTableTest, ServicesConflictIfTheirRangesOverlap) {
  struct Row {
    ServiceRange first, second;
    bool overlap;
  };
  const Row rows[] = {
      {ServiceRange::of(ServiceId{kSrp}), ServiceRange::of(ServiceId{kSrp}), true},
      {ServiceRange::of(ServiceId{kSrp}), ServiceRange::of(ServiceId{kSrp + 1}), false},
      {ServiceRange::of(ServiceId{kSrp}), ServiceRange::of(ServiceId{0x11389}), false},
      {{kAnyNumber, kIpoib}, ServiceRange::of(ServiceId{kIpoib + 0x48}), true},
      {ServiceRange::of(ServiceId{kIpoib + 0x48}), {kAnyNumber, kIpoib}, true},
      {{kAnyNumber, kIpoib}, ServiceRange::of(ServiceId{kIpoib + (1u << 24)}), false},
      {{kAnyNumber, kIpoib}, {0xf000'0000'0000'0001, kIpoib + 1}, true},
      {{0xf000'0000'0000'0001, kIpoib}, {0xf000'0000'0000'0001, kIpoib + 1}, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << std::hex << row.first.id << ", " << row.second.id);
    table_ = {};
    ASSERT_EQ(bind({.address = "::", .port = 0, .services = row.first}), 0);
    EXPECT_EQ(bind({.address = "::", .port = 0, .services = row.second}, kB),
              row.overlap ? EADDRNOTAVAIL : 0);
  }
}

TEST_F(PortTableTest, AServiceAtAnAddressIsOnesOwn) {
  const ServiceRange srp = ServiceRange::of(ServiceId{kSrp});
  ASSERT_EQ(bind({.address = "10.0.0.1", .port = 0, .services = srp}), 0);
  EXPECT_EQ(bind({.address = "10.0.0.1", .port = 0, .services = srp}, kB), EADDRINUSE);
  EXPECT_EQ(bind({.address = "::", .port = 0, .services = srp}, kB), EADDRNOTAVAIL);
  EXPECT_EQ(bind({.address = "10.0.0.2", .port = 0, .services = srp}, kB), 0);
  table_.release_all(kA);
  EXPECT_EQ(bind({.address = "10.0.0.1", .port = 0, .services = srp}, kB), 0);
}

TEST_F(PortTableTest, APortIsAServiceToo) {
  const ServiceRange ports{kWhole << 16, std::uint64_t{raw(PortSpace::ipoib)} << 16};
  ASSERT_EQ(bind({.address = "::", .port = 0, .services = ports}), 0);
  EXPECT_EQ(bind({.address = "10.0.0.1", .space = PortSpace::ipoib}, kB), EADDRNOTAVAIL);
  EXPECT_EQ(bind({.address = "10.0.0.1", .port = 0, .space = PortSpace::ipoib}, kB), EADDRNOTAVAIL);
  EXPECT_EQ(bind({.address = "10.0.0.1", .space = PortSpace::tcp}, kB), 0);
}

TEST_F(PortTableTest, FindsTheListenerOfAService) {
  ASSERT_EQ(bind({.address = "::", .port = 0, .services = {kAnyNumber, kIpoib}}), 0);
  ASSERT_EQ(listen(), 0);
  ASSERT_EQ(bind({.address = "::", .port = 0, .services = ServiceRange::of(ServiceId{kSrp})}, kB),
            0);
  const auto address = SocketAddress::parse("10.0.0.1").value();
  const auto program = [&](std::uint64_t service) {
    const auto found = table_.find(ServiceId{service}, address);
    return found ? found->program : 0;
  };
  EXPECT_EQ(program(kIpoib + 0x48), kA);
  EXPECT_EQ(program(kIpoib + (1u << 24)), 0);
  EXPECT_EQ(program(kSrp), 0) << "bound, but not listening";
  ASSERT_EQ(listen(kB), 0);
  EXPECT_EQ(program(kSrp), kB);
}

}  // namespace
}  // namespace verbatim::agent
