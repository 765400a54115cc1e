#include "ulp/rdma/infiniband/management.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "ulp/rdma/infiniband/fake_umad_for_test.h"
#include "wire/subnet/administration_packet.h"

namespace verbatim::ulp::rdma {
namespace {

using wire::AdministrationAttribute;
using wire::AdministrationPacket;
using wire::MadMethod;
using wire::MulticastRecord;
using wire::ServiceRecord;

constexpr std::uint8_t kMtu2048 = 4;
const Gid kGroup = Gid{SocketAddress::parse("ff12:401b:ffff::1").value().ipv6_bytes()};

/// The subnet administrator is the test.
class ManagementTest : public testing::Test {
 protected:
  ManagementTest() : management(Management::open("fake0", 1).value()) {}
  /// The question that was sent last.
  AdministrationPacket question(std::size_t back = 0) const {
    return wire::decode_administration_packet(umad.sent.at(umad.sent.size() - 1 - back).mad)
        .value();
  }
  /// The administrator's answer to `asked`.
  template <typename Record>
  void answer(AdministrationPacket asked, const Record& record, std::uint16_t status = 0) {
    const bool deletes = asked.method == MadMethod::remove;
    asked.method = deletes ? MadMethod::remove_response : MadMethod::get_response;
    asked.status = status;
    wire::set_data(asked, record);
    FakeUmad::Coming coming;
    encode(asked, coming.mad);
    umad.coming.push_back(coming);
    management->receive(now);
  }
  void pass(TimeNs time) {
    now += time;
    if (management->deadline() <= now) management->on_time(now);
  }
  std::uint32_t join(std::uint8_t state = wire::kFullMember) {
    const MulticastRecord wanted{.group = kGroup, .join_state = state};
    return management
        ->join(
            wanted, MulticastRecord::kGroup,
            [this](const auto& group) { told.push_back(group ? group->lid : -group.error().code); },
            now)
        .value();
  }
  void find_path() {
    const auto asked = management->find_path(
        {}, [this](const auto& path) { told.push_back(path ? path->mtu : -path.error().code); },
        now);
    EXPECT_TRUE(asked);
  }

  FakeUmad umad;
  std::unique_ptr<Management> management;
  TimeNs now = 0;
  std::vector<int> told;
};

using Told = std::vector<int>;

TEST_F(ManagementTest, PathIsAskedOfTheManagerInTheDefaultPartition) {
  find_path();
  ASSERT_EQ(umad.sent.size(), 1u);
  EXPECT_EQ(umad.sent[0].lid, 1);
  EXPECT_EQ(umad.sent[0].qkey, raw(wire::kManagementQKey));
  EXPECT_EQ(question().attribute, AdministrationAttribute::path_record);
  answer(question(), wire::PathRecord{.mtu = kMtu2048});
  EXPECT_EQ(told, (Told{kMtu2048}));
  EXPECT_EQ(management->deadline(), kNever);
  answer(question(), wire::PathRecord{.mtu = kMtu2048});  // A second answer is none.
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(ManagementTest, QuestionIsRepeatedAndThenTimesOut) {
  find_path();
  for (const TimeNs wait : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(management->deadline(), now + wait * kSecond);
    EXPECT_LT(umad.sent.back().timeout_ms * kMillisecond, wait * kSecond);
    EXPECT_EQ(umad.sent.back().mad, umad.sent.front().mad);
    // libibumad's own end of the wait changes nothing.
    umad.coming.push_back({.status = ETIMEDOUT, .length = 24, .mad = umad.sent.back().mad});
    management->receive(now);
    pass(wait * kSecond);
  }
  EXPECT_EQ(umad.sent.size(), Management::kTries);
  EXPECT_EQ(told, (Told{-ETIMEDOUT}));
  EXPECT_EQ(management->deadline(), kNever);
}

TEST_F(ManagementTest, BusyAdministratorIsAskedAgain) {
  find_path();
  answer(question(), wire::PathRecord{}, raw(wire::MadStatus::busy));
  EXPECT_TRUE(told.empty());
  pass(kSecond);
  answer(question(), wire::PathRecord{.mtu = kMtu2048});
  EXPECT_EQ(told, (Told{kMtu2048}));
}

TEST_F(ManagementTest, RefusalIsToldAtOnce) {
  find_path();
  answer(question(), wire::PathRecord{}, 0x0300);
  EXPECT_EQ(told, (Told{-EINVAL}));
}

TEST_F(ManagementTest, QuestionWaitsForAManagerAndGoesToTheNewOne) {
  umad.manager = 0;
  management->on_event(DeviceEvent::sm_change, now);
  find_path();
  EXPECT_TRUE(umad.sent.empty());
  umad.manager = 3;
  pass(kSecond);
  ASSERT_EQ(umad.sent.size(), 1u);
  EXPECT_EQ(umad.sent[0].lid, 3);
}

TEST_F(ManagementTest, GroupIsJoinedOnceForAllMembers) {
  const std::uint32_t first = join();
  EXPECT_EQ(question().method, MadMethod::set);
  const auto wanted = wire::data_as<MulticastRecord>(question());
  EXPECT_EQ(wanted.group, kGroup);
  EXPECT_EQ(wanted.port.bytes[15], 0x34);
  answer(question(), MulticastRecord{.group = kGroup, .lid = 0xc001});
  const std::uint32_t second = join();
  EXPECT_EQ(umad.sent.size(), 1u);
  EXPECT_EQ(told, (Told{0xc001, 0xc001}));
  management->leave(first, now);
  EXPECT_EQ(umad.sent.size(), 1u);
  management->leave(second, now);
  EXPECT_EQ(question().method, MadMethod::remove);
}

TEST_F(ManagementTest, AnotherManagerIsToldOfGroupsAndServices) {
  join();
  answer(question(), MulticastRecord{.group = kGroup, .lid = 0xc001});
  EXPECT_TRUE(management->offer({.id = 7}, [](const auto&) {}, now));
  answer(question(), ServiceRecord{.id = 7});
  management->on_event(DeviceEvent::port_active, now);  // All is as it was.
  EXPECT_EQ(umad.sent.size(), 2u);
  management->on_event(DeviceEvent::client_reregister, now);
  ASSERT_EQ(umad.sent.size(), 4u);
  answer(question(0).attribute == AdministrationAttribute::multicast_record ? question(0)
                                                                            : question(1),
         MulticastRecord{.group = kGroup, .lid = 0xc009});
  EXPECT_EQ(told, (Told{0xc001, 0xc009}));
}

TEST_F(ManagementTest, EndLeavesAndWithdraws) {
  join();
  answer(question(), MulticastRecord{.group = kGroup, .lid = 0xc001});
  EXPECT_TRUE(management->offer({.id = 7}, [](const auto&) {}, now));
  answer(question(), ServiceRecord{.id = 7});
  management.reset();
  ASSERT_EQ(umad.sent.size(), 4u);
  for (const std::size_t back : {0u, 1u}) EXPECT_EQ(question(back).method, MadMethod::remove);
  EXPECT_FALSE(umad.is_open);
}

TEST_F(ManagementTest, AnswerMayAskAgain) {
  const auto asked = management->find_path({}, [this](const auto&) { find_path(); }, now);
  EXPECT_TRUE(asked);
  answer(question(), wire::PathRecord{.mtu = kMtu2048});
  EXPECT_EQ(umad.sent.size(), 2u);
  answer(question(), wire::PathRecord{.mtu = kMtu2048});
  EXPECT_EQ(told, (Told{kMtu2048}));
}

TEST_F(ManagementTest, ServesAClass) {
  constexpr auto kClass = wire::MadClass::device_management;
  EXPECT_TRUE(management->serve(kClass, [](wire::MadSpan request, auto out) {
    out[64] = std::byte{0x55};
    return wire::decode_mad_header(request)->attribute == 0x10;
  }));
  ASSERT_EQ(umad.classes.back(), raw(kClass));
  FakeUmad::Coming coming{.agent = static_cast<int>(umad.classes.size()) - 1};
  for (const std::uint16_t attribute : {std::uint16_t{0x10}, std::uint16_t{0x11}}) {
    wire::encode({.management_class = kClass,
                  .method = MadMethod::set,
                  .transaction = 0x77,
                  .attribute = attribute},
                 std::span(coming.mad).first<wire::MadHeader::kSize>());
    umad.coming.push_back(coming);
  }
  management->receive(now);
  ASSERT_EQ(umad.sent.size(), 1u);
  const auto header = wire::decode_mad_header(umad.sent[0].mad).value();
  EXPECT_EQ(header.method, MadMethod::get_response);
  EXPECT_EQ(header.transaction, 0x77u);
  EXPECT_EQ(umad.sent[0].mad[64], std::byte{0x55});
  EXPECT_EQ(umad.sent[0].lid, 9);  // Its sender.
  EXPECT_EQ(umad.sent[0].qkey, raw(wire::kManagementQKey));
  EXPECT_EQ(umad.sent[0].timeout_ms, 0);
}

TEST(Management, NeedsAnInfinibandPortAndAnAgent) {
  FakeUmad umad;
  umad.link_layer = "Ethernet";
  EXPECT_EQ(Management::open("fake0", 1).error().code, ENODEV);
  umad.link_layer = "InfiniBand";
  umad.refuses_class = raw(wire::MadClass::subnet_administration);
  EXPECT_EQ(Management::open("fake0", 1).error().code, EINVAL);
  EXPECT_FALSE(umad.is_open);
}

}  // namespace
}  // namespace verbatim::ulp::rdma
