#include "fabric/daemon/port_agents.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

constexpr std::uint8_t kAdministration = 0x03;
constexpr std::uint8_t kDirectedRoute = 0x81;
constexpr std::uint8_t kVendor = 0x32;
constexpr std::uint8_t kGetMulti = 0x14;
constexpr std::uint32_t kOui = 0x1405;
constexpr FileId kFile{10};
constexpr FileId kOtherFile{11};
constexpr std::array<std::uint16_t, 2> kPKeys{0xffff, 0x8001};
const PortIdentifiers kPort{.lid = Lid{4}, .lmc = 1, .gid = {}, .pkeys = kPKeys};

using Bytes = std::array<std::byte, wire::kMadBytes>;

Bytes datagram(std::uint8_t management_class, wire::MadMethod method, std::uint64_t transaction) {
  Bytes bytes{};
  wire::encode({.management_class = static_cast<wire::MadClass>(management_class),
                .method = method,
                .transaction = transaction},
               std::span(bytes).first<wire::MadHeader::kSize>());
  return bytes;
}

std::uint64_t transaction_of(ByteSpan bytes) { return load_be<std::uint64_t>(bytes.data() + 8); }

/// A port with one agent, which asks LID 9.
class PortAgentsTest : public testing::Test {
 protected:
  std::uint32_t add(FileId file, std::uint8_t management_class, std::uint64_t methods = 0) {
    const auto number = agents.add(file, {.management_class = management_class,
                                          .class_version = 1,
                                          .oui = management_class == kVendor ? kOui : 0,
                                          .methods = {methods, 0}});
    EXPECT_TRUE(number) << number.error().text;
    return number.value_or(99);
  }
  void send(const Bytes& bytes, std::uint32_t timeout_ms = 0, std::uint32_t retries = 0,
            TimeNs now = 0) {
    agents.send(kFile,
                {.agent = 0,
                 .timeout_ms = timeout_ms,
                 .retries = retries,
                 .length = static_cast<std::uint32_t>(bytes.size()),
                 .address = {.qpn = 1, .lid = 9, .pkey_index = pkey_index}},
                bytes, kPort, now);
  }
  template <typename T>
  std::optional<T> take() {
    const auto output = agents.take_output();
    const T* const value = output ? std::get_if<T>(&*output) : nullptr;
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }
  /// The answer to what was sent, from LID `from`.
  ManagementDatagram answer_to(const ManagementDatagram& request, std::uint16_t from = 9) const {
    ManagementDatagram answer{.path = {.dlid = Lid{5}, .slid = Lid{from}},
                              .source_qp = request.destination_qp,
                              .destination_qp = request.source_qp,
                              .mad = request.mad};
    answer.mad[3] = std::byte{0x81};
    return answer;
  }

  PortAgents agents;
  std::uint16_t pkey_index = 0;
};

TEST_F(PortAgentsTest, AgentsHaveTheLowestFreeNumberOfTheirFile) {
  EXPECT_EQ(add(kFile, kAdministration), 0u);
  EXPECT_EQ(add(kFile, kAdministration), 1u);
  EXPECT_EQ(add(kOtherFile, kAdministration), 0u);
  EXPECT_TRUE(agents.remove(kFile, 0));
  EXPECT_EQ(agents.remove(kFile, 0).error().code, EINVAL);
  EXPECT_EQ(add(kFile, kAdministration), 0u);
}

TEST_F(PortAgentsTest, MethodHasOneAgentUntilItsFileIsClosed) {
  add(kFile, kDirectedRoute, 1u << 1);
  const protocol::RegisterAgent same{
      .management_class = kDirectedRoute, .class_version = 1, .methods = {1u << 1, 0}};
  EXPECT_EQ(agents.add(kOtherFile, same).error().code, EINVAL);
  agents.close(kFile);
  EXPECT_TRUE(agents.add(kOtherFile, same));
}

TEST_F(PortAgentsTest, RmppIsOfSomeClassesAndOfVersion1) {
  const auto code = [&](std::uint8_t management_class, std::uint8_t version) {
    const auto added = agents.add(
        kFile, {.management_class = management_class, .class_version = 1, .rmpp_version = version});
    return added ? 0 : added.error().code;
  };
  EXPECT_EQ(code(kDirectedRoute, 1), EINVAL);
  EXPECT_EQ(code(kAdministration, 2), EINVAL);
  EXPECT_EQ(code(kAdministration, 1), 0);
}

TEST_F(PortAgentsTest, RequestCarriesTheAgentAndItsReplyComesBackOnce) {
  add(kFile, kAdministration);
  send(datagram(kAdministration, wire::MadMethod::get, 0xdead'beef'0000'0007), 100);
  const auto sent = take<Transmit>();
  ASSERT_TRUE(sent);
  EXPECT_EQ(transaction_of(sent->datagram.mad) & 0xffff'ffff, 7u);
  EXPECT_NE(transaction_of(sent->datagram.mad) >> 32, 0xdead'beef);
  EXPECT_EQ(sent->datagram.path.slid, Lid{4});
  agents.on_datagram(answer_to(sent->datagram), kPort, 1);
  const auto delivered = take<Delivery>();
  ASSERT_TRUE(delivered);
  EXPECT_EQ(delivered->file, kFile);
  EXPECT_EQ(delivered->record.status, 0u);
  EXPECT_EQ(delivered->record.address.lid, 9);
  EXPECT_EQ(delivered->record.address.path_bits, 1);
  EXPECT_EQ(delivered->bytes.size(), wire::kMadBytes);
  agents.on_datagram(answer_to(sent->datagram), kPort, 2);
  EXPECT_FALSE(take<Delivery>());
  EXPECT_EQ(agents.deadline(), kNever);
}

/// The communication manager's answers have the transaction id of the REQ.
TEST_F(PortAgentsTest, SendKeepsItsTransactionId) {
  constexpr std::uint8_t kCommunicationManagement = 0x07;
  add(kFile, kCommunicationManagement);
  send(datagram(kCommunicationManagement, wire::MadMethod::send, 0xdead'beef'0000'0007));
  const auto sent = take<Transmit>();
  ASSERT_TRUE(sent);
  EXPECT_EQ(transaction_of(sent->datagram.mad), 0xdead'beef'0000'0007);
}

TEST_F(PortAgentsTest, ReplyFromElsewhereIsDropped) {
  add(kFile, kAdministration);
  send(datagram(kAdministration, wire::MadMethod::get, 7), 100);
  agents.on_datagram(answer_to(take<Transmit>()->datagram, 8), kPort, 1);
  EXPECT_FALSE(take<Delivery>());
}

TEST_F(PortAgentsTest, UnansweredRequestIsRepeatedAndThenComesBack) {
  add(kFile, kAdministration);
  send(datagram(kAdministration, wire::MadMethod::get, 7), 100, 1);
  const auto first = take<Transmit>();
  ASSERT_TRUE(first);
  EXPECT_EQ(agents.deadline(), 100 * kMillisecond);
  agents.on_time(kPort, 100 * kMillisecond);
  const auto second = take<Transmit>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->datagram.mad, first->datagram.mad);
  EXPECT_EQ(agents.deadline(), 200 * kMillisecond);
  agents.on_time(kPort, 200 * kMillisecond);
  const auto given_back = take<Delivery>();
  ASSERT_TRUE(given_back);
  EXPECT_EQ(given_back->record.status, static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_EQ(given_back->bytes.size(), wire::MadHeader::kSize);
  EXPECT_EQ(transaction_of(given_back->bytes), transaction_of(first->datagram.mad));
}

TEST_F(PortAgentsTest, WhatCannotBeSentComesBackWithTheReason) {
  const auto reason = [&] {
    const auto given_back = take<Delivery>();
    return given_back ? given_back->record.status : 0;
  };
  const Bytes request = datagram(kAdministration, wire::MadMethod::get, 7);
  send(request, 100);
  EXPECT_EQ(reason(), static_cast<std::uint32_t>(EINVAL));  // There is no agent.
  add(kFile, kAdministration);
  pkey_index = 2;
  send(request, 100);
  EXPECT_EQ(reason(), static_cast<std::uint32_t>(EINVAL));
  pkey_index = 1;
  send(request, 100);
  EXPECT_EQ(take<Transmit>()->datagram.pkey, kPKeys[1]);
  send(request, 100);
  EXPECT_EQ(reason(), static_cast<std::uint32_t>(EINVAL));  // Its transaction id is in flight.
}

TEST_F(PortAgentsTest, ClosedFileGetsNothing) {
  add(kFile, kAdministration);
  send(datagram(kAdministration, wire::MadMethod::get, 7), 100);
  const auto sent = take<Transmit>();
  agents.close(kFile);
  EXPECT_TRUE(agents.empty());
  EXPECT_EQ(agents.deadline(), kNever);
  agents.on_datagram(answer_to(sent->datagram), kPort, 1);
  EXPECT_FALSE(agents.take_output());
}

TEST_F(PortAgentsTest, RequestThatNobodyTakesIsAnsweredOnItsWayBack) {
  const ManagementDatagram request{.path = {.dlid = Lid{4}, .slid = Lid{9}},
                                   .source_qp = Qpn{1},
                                   .destination_qp = Qpn{1},
                                   .mad = datagram(kVendor, wire::MadMethod::get, 7)};
  agents.on_datagram(request, kPort, 0);
  const auto answer = take<Transmit>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->datagram.path.dlid, Lid{9});
  EXPECT_EQ(answer->datagram.mad[3], std::byte{0x81});
  EXPECT_EQ(load_be<std::uint16_t>(&answer->datagram.mad[4]), 0x000c);
}

/// What a program answers with, by the index that it was told, too: never the request's key.
TEST_F(PortAgentsTest, AnswersHaveThePortsOwnKeys) {
  struct Row {
    std::vector<std::uint16_t> own;
    std::uint16_t request;
    std::uint16_t index;
  };
  const std::array rows{Row{{0xffff, 0x8001}, 0x7fff, 0}, Row{{0x7fff, 0x8001}, 0xffff, 0},
                        Row{{0x7fff, 0x8001}, 0x0001, 1}, Row{{0x7fff, 0xffff}, 0x7fff, 1},
                        Row{{0x7fff, 0xffff}, 0xffff, 1}, Row{{0xffff, 0x0001}, 0x8001, 1}};
  add(kFile, kAdministration, 1u << 1);
  for (const auto& [own, key, index] : rows) {
    SCOPED_TRACE(key);
    PortIdentifiers port = kPort;
    port.pkeys = own;
    ManagementDatagram request{.path = {.dlid = Lid{4}, .slid = Lid{9}},
                               .source_qp = Qpn{1},
                               .destination_qp = Qpn{1},
                               .pkey = key,
                               .mad = datagram(kVendor, wire::MadMethod::get, 7)};
    agents.on_datagram(request, port, 0);
    EXPECT_EQ(take<Transmit>()->datagram.pkey, own[index]);
    request.mad = datagram(kAdministration, wire::MadMethod::get, 7);
    agents.on_datagram(request, port, 0);
    EXPECT_EQ(take<Delivery>()->record.address.pkey_index, index);
  }
}

TEST_F(PortAgentsTest, ResponseOfAProgramKeepsItsTransactionId) {
  add(kFile, kAdministration, 1u << 1);
  send(datagram(kAdministration, wire::MadMethod::get_response, 0x1234'5678'9abc'def0));
  EXPECT_EQ(transaction_of(take<Transmit>()->datagram.mad), 0x1234'5678'9abc'def0u);
}

/// Two ports, whose datagrams cross at once; every `lose_each`th of them is lost.
class RmppTest : public testing::Test {
 protected:
  struct End {
    PortAgents agents;
    PortIdentifiers port;
    std::vector<Delivery> deliveries;
  };
  RmppTest() {
    client.port = {.lid = Lid{4}, .lmc = 0, .gid = {}, .pkeys = kPKeys};
    server.port = {.lid = Lid{9}, .lmc = 0, .gid = {}, .pkeys = kPKeys};
    const protocol::RegisterAgent asks{
        .management_class = kAdministration, .class_version = 2, .rmpp_version = 1};
    EXPECT_TRUE(client.agents.add(kFile, asks));
    protocol::RegisterAgent serves = asks;
    serves.methods[0] = 1u << 0x12 | 1u << kGetMulti;
    EXPECT_TRUE(server.agents.add(kFile, serves));
  }
  void send(End& from, ByteSpan bytes, Lid to, std::uint32_t timeout_ms, std::uint32_t retries) {
    from.agents.send(kFile,
                     {.timeout_ms = timeout_ms,
                      .retries = retries,
                      .length = static_cast<std::uint32_t>(bytes.size()),
                      .address = {.qpn = 1, .lid = raw(to)}},
                     bytes, from.port, now);
    pump();
  }
  void pump() {
    while (move(client, server) || move(server, client)) {
    }
  }
  bool move(End& from, End& to) {
    const auto output = from.agents.take_output();
    if (!output) return false;
    if (const auto* const delivery = std::get_if<Delivery>(&*output)) {
      from.deliveries.push_back(*delivery);
    } else if (++crossed % lose_each != 0) {
      to.agents.on_datagram(std::get<Transmit>(*output).datagram, to.port, now);
    }
    return true;
  }
  /// GetMulti, in which requests have several segments.
  static std::vector<std::byte> long_request(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 56; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 5 >> 2);
    const Bytes header = datagram(kAdministration, static_cast<wire::MadMethod>(kGetMulti), 7);
    std::ranges::copy(ByteSpan(header).first(wire::MadHeader::kSize), bytes.begin());
    bytes[2] = std::byte{2};
    bytes[24] = bytes[26] = std::byte{1};  // RMPP's version; active.
    return bytes;
  }
  /// Until a message, or a request that has failed, is delivered there.
  void wait_for(const End& end, TimeNs limit) {
    for (const TimeNs last = now + limit; end.deliveries.empty() && now < last;) {
      now += 50 * kMillisecond;
      client.agents.on_time(client.port, now);
      server.agents.on_time(server.port, now);
      pump();
    }
  }
  Bytes request() const {
    Bytes bytes = datagram(kAdministration, static_cast<wire::MadMethod>(0x12), 7);
    bytes[2] = std::byte{2};
    return bytes;
  }
  /// To the request that the server was given.
  std::vector<std::byte> long_answer(std::size_t size) const {
    std::vector<std::byte> answer(size);
    for (std::size_t i = 56; i < size; ++i) answer[i] = static_cast<std::byte>(i * 7 >> 3);
    std::ranges::copy(ByteSpan(server.deliveries.at(0).bytes).first(56), answer.begin());
    answer[3] |= std::byte{0x80};
    answer[24] = std::byte{1};  // RMPP version.
    answer[26] = std::byte{1};  // Active.
    return answer;
  }

  End client, server;
  TimeNs now = kSecond;
  std::uint64_t crossed = 0;
  std::uint64_t lose_each = 1'000'000;
};

TEST_F(RmppTest, LongAnswerArrivesWhole) {
  send(client, request(), server.port.lid, 1000, 0);
  ASSERT_EQ(server.deliveries.size(), 1u);
  const auto answer = long_answer(100'000);
  send(server, answer, client.port.lid, 100, 3);
  ASSERT_EQ(client.deliveries.size(), 1u);
  const auto& got = client.deliveries[0].bytes;
  ASSERT_EQ(got.size(), answer.size());
  EXPECT_TRUE(std::equal(got.begin() + 56, got.end(), answer.begin() + 56));
  EXPECT_EQ(client.deliveries[0].record.address.lid, 9);
}

TEST_F(RmppTest, LongRequestIsAnsweredByALongAnswer) {
  for (const std::uint64_t lose : {1'000'000, 7}) {
    SCOPED_TRACE(lose);
    lose_each = lose;
    const auto request = long_request(5'000);
    send(client, request, server.port.lid, 200, 20);
    wait_for(server, 9 * kSecond);
    ASSERT_EQ(server.deliveries.size(), 1u);
    const auto& asked = server.deliveries[0].bytes;
    EXPECT_TRUE(std::equal(asked.begin() + 56, asked.end(), request.begin() + 56, request.end()));
    send(server, long_answer(20'000), client.port.lid, 100, 9);
    wait_for(client, 9 * kSecond);
    ASSERT_EQ(client.deliveries.size(), 1u);
    EXPECT_EQ(client.deliveries[0].record.status, 0u);
    EXPECT_EQ(client.deliveries[0].bytes.size(), 20'000u);
    EXPECT_EQ(transaction_of(client.deliveries[0].bytes) & 0xffff'ffff, 7u);
    now += mad::RmppReceiver::kMemory;
    client.agents.on_time(client.port, now);
    server.agents.on_time(server.port, now);
    client.deliveries.clear();
    server.deliveries.clear();
  }
}

TEST_F(RmppTest, LongRequestWithoutAnswerComesBackOnce) {
  send(client, long_request(5'000), server.port.lid, 200, 2);
  ASSERT_EQ(server.deliveries.size(), 1u);
  const TimeNs asked = now;
  wait_for(client, 5 * kSecond);
  ASSERT_EQ(client.deliveries.size(), 1u);
  EXPECT_EQ(client.deliveries[0].record.status, static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_EQ(now - asked, 600 * kMillisecond) << "three times 200 ms";
  EXPECT_EQ(server.deliveries.size(), 1u) << "it has come, and is not sent again";
}

TEST_F(RmppTest, LongRequestThatDoesNotArriveComesBackOnce) {
  lose_each = 1;  // All.
  send(client, long_request(5'000), server.port.lid, 200, 2);
  wait_for(client, 5 * kSecond);
  ASSERT_EQ(client.deliveries.size(), 1u);
  EXPECT_EQ(client.deliveries[0].record.status, static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_TRUE(server.deliveries.empty());
  wait_for(client, 5 * kSecond);
  EXPECT_EQ(client.deliveries.size(), 1u);
}

TEST_F(RmppTest, LostSegmentsAreSentAgain) {
  send(client, request(), server.port.lid, 30'000, 0);
  ASSERT_EQ(server.deliveries.size(), 1u);
  lose_each = 50;
  const auto answer = long_answer(50'000);
  send(server, answer, client.port.lid, 100, 10);
  for (int i = 0; i < 100 && client.deliveries.empty(); ++i) {
    now += 100 * kMillisecond;
    client.agents.on_time(client.port, now);
    server.agents.on_time(server.port, now);
    pump();
  }
  ASSERT_EQ(client.deliveries.size(), 1u);
  EXPECT_EQ(client.deliveries[0].bytes.size(), answer.size());
}

}  // namespace
}  // namespace verbatim::fabric
