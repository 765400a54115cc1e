#include "fabric/daemon/port_groups.h"

#include <array>
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "wire/subnet/administration_packet.h"

namespace verbatim::fabric {
namespace {

using wire::AdministrationPacket;
using wire::MulticastRecord;

constexpr FileId kProgram{10};
constexpr FileId kOtherProgram{11};
constexpr std::array<std::uint16_t, 1> kPKeys{0xffff};
constexpr Gid kGroup{{0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};

/// A port in a subnet whose administrator is at LID 9.
struct PortGroupsTest : testing::Test {
  void join(FileId file, std::uint32_t membership) {
    const MulticastRecord record{.group = kGroup, .join_state = wire::kFullMember};
    protocol::JoinMulticast request{.membership = membership,
                                    .components = MulticastRecord::kGroup};
    wire::encode(record, std::as_writable_bytes(std::span(request.record)));
    groups.join(file, request, port, now);
  }
  /// The next datagram that leaves the port.
  std::optional<ManagementDatagram> sent() {
    while (const auto output = agents.take_output()) {
      if (const auto* const transmit = std::get_if<Transmit>(&*output)) return transmit->datagram;
      groups.on_delivery(std::get<Delivery>(*output), port, now);
    }
    return std::nullopt;
  }
  static AdministrationPacket packet_in(const ManagementDatagram& datagram) {
    return wire::decode_administration_packet(datagram.mad).value();
  }
  void answer(const ManagementDatagram& question, std::uint16_t lid, std::uint16_t status = 0) {
    AdministrationPacket packet = packet_in(question);
    const bool is_set = packet.method == wire::MadMethod::set;
    packet.method = is_set ? wire::MadMethod::get_response : wire::MadMethod::remove_response;
    packet.status = status;
    auto record = wire::data_as<MulticastRecord>(packet);
    record.lid = lid;
    wire::set_data(packet, record);
    ManagementDatagram datagram{
        .path = {.dlid = port.lid, .slid = Lid{9}}, .source_qp = Qpn{1}, .destination_qp = Qpn{1}};
    encode(packet, datagram.mad);
    agents.on_datagram(datagram, port, now);
  }
  /// What a program is told: the group's LID, or the error, negative.
  std::vector<std::pair<FileId, int>> told() {
    std::vector<std::pair<FileId, int>> all;
    while (const auto one = groups.take_told()) {
      const auto bytes = std::as_bytes(std::span(one->message.record));
      const int lid = wire::decode<MulticastRecord>(bytes).lid;
      all.emplace_back(one->file, one->message.error != 0 ? -one->message.error : lid);
    }
    return all;
  }

  PortIdentifiers port{.lid = Lid{4},
                       .lmc = 0,
                       .gid = {{0xfe, 0x80}},
                       .pkeys = kPKeys,
                       .management = {.manager = Lid{9}, .own = Lid{4}}};
  TimeNs now = 0;
  PortAgents agents;
  PortGroups groups{agents};
};

TEST_F(PortGroupsTest, TheAdministratorIsAskedInThePortsName) {
  join(kProgram, 3);
  const auto question = sent();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->path.dlid, Lid{9});
  const AdministrationPacket packet = packet_in(*question);
  EXPECT_EQ(packet.method, wire::MadMethod::set);
  EXPECT_EQ(packet.components,
            MulticastRecord::kGroup | MulticastRecord::kPort | MulticastRecord::kJoinState);
  EXPECT_EQ(wire::data_as<MulticastRecord>(packet).port, port.gid);
  answer(*question, 0xc003);
  EXPECT_FALSE(sent());
  EXPECT_EQ(told(), (std::vector<std::pair<FileId, int>>{{kProgram, 0xc003}}));
}

TEST_F(PortGroupsTest, ARefusalAndSilenceAreTold) {
  join(kProgram, 3);
  answer(*sent(), 0, 0x0200);
  EXPECT_FALSE(sent());
  EXPECT_EQ(told(), (std::vector<std::pair<FileId, int>>{{kProgram, -EINVAL}}));
  join(kProgram, 3);
  while (sent()) {
    now += 1 * kSecond;
    agents.on_time(port, now);
  }
  EXPECT_EQ(now, 4 * kSecond) << "it is asked four times";
  EXPECT_EQ(told(), (std::vector<std::pair<FileId, int>>{{kProgram, -ETIMEDOUT}}));
}

TEST_F(PortGroupsTest, WithoutASubnetManagerNobodyIsAsked) {
  port.management.manager = {};
  join(kProgram, 3);
  EXPECT_FALSE(sent());
  EXPECT_EQ(told(), (std::vector<std::pair<FileId, int>>{{kProgram, -EAGAIN}}));
}

TEST_F(PortGroupsTest, ThePortLeavesWhenItsLastProgramEnds) {
  join(kProgram, 3);
  join(kOtherProgram, 3);
  answer(*sent(), 0xc003);
  EXPECT_FALSE(sent());
  groups.close(kProgram, port, now);
  EXPECT_FALSE(sent());
  groups.close(kOtherProgram, port, now);
  const auto leaving = sent();
  ASSERT_TRUE(leaving);
  EXPECT_EQ(packet_in(*leaving).method, wire::MadMethod::remove);
}

TEST_F(PortGroupsTest, AChangeOfTheManagementLeadsToANewJoin) {
  join(kProgram, 3);
  answer(*sent(), 0xc003);
  EXPECT_FALSE(sent());
  groups.on_port_changed(port, now);
  EXPECT_FALSE(sent());
  ++port.management.reregistrations;
  groups.on_port_changed(port, now);
  const auto question = sent();
  ASSERT_TRUE(question);
  answer(*question, 0xc004);
  EXPECT_FALSE(sent());
  EXPECT_EQ(told(), (std::vector<std::pair<FileId, int>>{{kProgram, 0xc003}, {kProgram, 0xc004}}));
}

}  // namespace
}  // namespace verbatim::fabric
