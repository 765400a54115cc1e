#include "ulp/srp/port.h"

#include <gtest/gtest.h>

#include "ulp/srp/bench_for_test.h"

namespace verbatim::ulp::srp {
namespace {

TEST(SrpPort, InitiatorsHaveSeveralNames) {
  PortId id{};
  store_be(id.data(), std::uint64_t{1});
  store_be(&id[8], std::uint64_t{0x5054'00ff'fe78'0003});
  const SocketAddress from = SocketAddress::ipv4({10, 0, 0, 2}, 999);
  for (const char* const name :
       {"0x0000000000000001505400fffe780003", "0000000000000001505400fffe780003",
        "5054:00ff:fe78:0003", "10.0.0.2"})
    EXPECT_TRUE(is_named(name, id, from)) << name;
  for (const char* const name : {"", "0x0000000000000000505400fffe780003", "5054:00ff:fe78:0004",
                                 "10.0.0.3", "5054:ff:fe78:3", "nonsense"})
    EXPECT_FALSE(is_named(name, id, from)) << name;
  EXPECT_FALSE(is_named("10.0.0.2", id, {}));  // By the InfiniBand CM.
}

class SrpPortChanges : public testing::Test {
 protected:
  void SetUp() override {
    auto verdict = target.meet(TargetBench::login_of());
    session = std::move(std::get<storage::Accept>(verdict).session);
  }
  void TearDown() override {
    session->on_end(0, out);
    EXPECT_TRUE(session->is_idle());
    session.reset();
    for (const auto& one : target.ports->sessions()) EXPECT_EQ(one, nullptr);
  }
  /// Whether the channel says its last word: why the port's session is over.
  bool ends() {
    if (session->deadline() > 0) return false;
    out.clear();
    session->on_time(0, out);
    const auto* const send = out.work.empty() ? nullptr : std::get_if<Send>(&out.work[0]);
    return send != nullptr && opcode_of(send->header) == Opcode::target_logout;
  }
  const Ports::Session& shown() const { return static_cast<Channel&>(*session).session(); }

  TargetBench target;
  std::unique_ptr<storage::Session> session;
  storage::Output out;
};

TEST_F(SrpPortChanges, UnitsComeAndGo) {
  PortSettings settings = target.port->settings();
  scsi::LogicalUnit other(storage::UnitId{8}, {}, TargetBench::settings());
  EXPECT_TRUE(settings.units.add(1, other));
  EXPECT_EQ(settings.units.add(1, other).error().code, EEXIST);
  EXPECT_EQ(settings.units.add(256, other).error().code, EINVAL);
  target.port->set(settings);
  EXPECT_EQ(shown().units.luns().size(), 1u);
  target.ports->refresh(*target.port);
  EXPECT_EQ(shown().units.luns().size(), 2u);
  EXPECT_FALSE(ends());

  settings.initiators[0].units.emplace();  // None of its own.
  target.port->set(settings);
  target.ports->refresh(*target.port);
  EXPECT_EQ(shown().units.luns().size(), 0u);
  EXPECT_FALSE(ends());
}

TEST_F(SrpPortChanges, WhoIsNoLongerAdmittedIsLoggedOut) {
  PortSettings settings = target.port->settings();
  settings.initiators.clear();
  target.port->set(settings);
  EXPECT_FALSE(ends());
  target.ports->refresh(*target.port);
  EXPECT_TRUE(ends());
}

TEST_F(SrpPortChanges, APortIsRemovedBeforeItsSessionsHaveEnded) {
  target.ports->remove(*target.port);
  EXPECT_EQ(target.ports->find(port_id(2)), nullptr);
  EXPECT_TRUE(ends());
  EXPECT_TRUE(std::holds_alternative<Rejection>(target.meet(TargetBench::login_of())));
}

}  // namespace
}  // namespace verbatim::ulp::srp
