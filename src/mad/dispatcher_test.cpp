#include "mad/dispatcher.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

using wire::MadClass;
using wire::MadMethod;

constexpr MadClass kAdministration{0x03};
constexpr MadClass kDirectedRoute{0x81};
constexpr MadClass kVendor{0x32};
constexpr auto kReport = static_cast<MadMethod>(0x06);
constexpr auto kTrapRepress = static_cast<MadMethod>(0x07);

Path path_to(std::uint8_t last_byte) {
  return InfinibandPath{.dlid = Lid{last_byte}, .slid = Lid{9}};
}

std::bitset<128> methods(std::initializer_list<MadMethod> list) {
  std::bitset<128> set;
  for (const MadMethod method : list) set.set(raw(method));
  return set;
}

/// A datagram with bytes of its own.
struct Datagram {
  explicit Datagram(const wire::MadHeader& header, std::uint8_t peer = 1) : peer_number(peer) {
    wire::encode(header, std::span(bytes).first<wire::MadHeader::kSize>());
  }
  Datagram& with_oui(std::uint32_t oui) {
    store_be(&bytes[36], oui);  // The first byte of it is reserved.
    return *this;
  }
  Mad mad() const { return {.peer = path_to(peer_number), .bytes = bytes}; }
  std::array<std::byte, wire::kMadBytes> bytes{};
  std::uint8_t peer_number;
};

class DispatcherTest : public testing::Test {
 protected:
  ClientId add(const Registration& registration) {
    const auto client = dispatcher_.add(registration);
    EXPECT_TRUE(client) << client.error().text;
    return client.value_or(ClientId{});
  }
  int refused(const Registration& registration) {
    const auto client = dispatcher_.add(registration);
    return client ? 0 : client.error().code;
  }
  std::optional<ClientId> taker(const Datagram& datagram, SpecialQp qp = SpecialQp::qp1) {
    return dispatcher_.route(qp, datagram.mad()).client;
  }
  /// A Get to `peer`, by the client; returns the id that it is sent by.
  std::uint64_t ask(ClientId client, std::uint64_t transaction, TimeNs deadline = kNever,
                    std::uint8_t peer = 1) {
    const Datagram request(
        {.management_class = kAdministration, .method = MadMethod::get, .transaction = transaction},
        peer);
    const auto sent = dispatcher_.expect_reply(client, request.mad(), deadline);
    EXPECT_TRUE(sent) << sent.error().text;
    return sent.value_or(0);
  }
  static wire::MadHeader reply(std::uint64_t transaction) {
    return {.management_class = kAdministration,
            .method = MadMethod::get_response,
            .transaction = transaction};
  }

  Dispatcher dispatcher_;
};

TEST_F(DispatcherTest, RequestGoesByClassVersionAndMethod) {
  const ClientId gets = add({.management_class = kAdministration,
                             .class_version = 2,
                             .methods = methods({MadMethod::get})});
  const ClientId sets = add({.management_class = kAdministration,
                             .class_version = 2,
                             .methods = methods({MadMethod::set})});
  const ClientId old = add({.management_class = kAdministration,
                            .class_version = 1,
                            .methods = methods({MadMethod::get})});
  wire::MadHeader header{
      .management_class = kAdministration, .class_version = 2, .method = MadMethod::get};
  EXPECT_EQ(taker(Datagram(header)), gets);
  header.method = MadMethod::set;
  EXPECT_EQ(taker(Datagram(header)), sets);
  header.method = MadMethod::send;
  EXPECT_EQ(taker(Datagram(header)), std::nullopt);
  header = {.management_class = kAdministration, .class_version = 1, .method = MadMethod::get};
  EXPECT_EQ(taker(Datagram(header)), old);
  EXPECT_EQ(taker(Datagram(header), SpecialQp::qp0), std::nullopt);
  header.class_version = 3;
  EXPECT_EQ(taker(Datagram(header)), std::nullopt);
}

TEST_F(DispatcherTest, MethodHasOneClient) {
  Registration registration{.management_class = kAdministration,
                            .methods = methods({MadMethod::get, MadMethod::set})};
  const ClientId first = add(registration);
  registration.methods = methods({MadMethod::send, MadMethod::set});
  EXPECT_EQ(refused(registration), EINVAL);
  // What was refused has taken nothing.
  const wire::MadHeader header{.management_class = kAdministration, .method = MadMethod::send};
  EXPECT_EQ(taker(Datagram(header)), std::nullopt);
  dispatcher_.remove(first);
  const ClientId second = add(registration);
  EXPECT_NE(second, first);
  EXPECT_EQ(taker(Datagram(header)), second);
}

TEST_F(DispatcherTest, VendorClassGoesByOui) {
  Registration registration{
      .management_class = kVendor, .methods = methods({MadMethod::set}), .oui = 0x001405};
  const ClientId one = add(registration);
  registration.oui = 0x0002c9;
  const ClientId other = add(registration);
  const wire::MadHeader header{.management_class = kVendor, .method = MadMethod::set};
  EXPECT_EQ(taker(Datagram(header).with_oui(0x001405)), one);
  // The byte before the OUI is reserved.
  EXPECT_EQ(taker(Datagram(header).with_oui(0xff0002c9)), other);
  EXPECT_EQ(taker(Datagram(header).with_oui(0x001406)), std::nullopt);
}

TEST_F(DispatcherTest, ClassQueuePairAndOuiBelongTogether) {
  const auto get = methods({MadMethod::get});
  EXPECT_EQ(refused({.management_class = kVendor, .methods = get}), EINVAL);
  EXPECT_EQ(refused({.management_class = kVendor, .methods = get, .oui = 1U << 24}), EINVAL);
  EXPECT_EQ(refused({.management_class = kAdministration, .methods = get, .oui = 1}), EINVAL);
  EXPECT_EQ(refused({.management_class = kDirectedRoute, .methods = get}), EINVAL);
  EXPECT_EQ(refused({.qp = SpecialQp::qp0, .management_class = kAdministration, .methods = get}),
            EINVAL);
  EXPECT_EQ(refused({.qp = SpecialQp::qp0, .management_class = kDirectedRoute, .methods = get}), 0);
}

TEST_F(DispatcherTest, ReplyGoesOnceToWhoAsked) {
  const ClientId first = add({});
  const ClientId second = add({});
  const std::uint64_t one = ask(first, 0xabcd'0000'0007);
  const std::uint64_t two = ask(second, 0xabcd'0000'0007);
  EXPECT_EQ(one, std::uint64_t{raw(first)} << 32 | 7);
  EXPECT_EQ(two, std::uint64_t{raw(second)} << 32 | 7);
  const auto answered = dispatcher_.route(SpecialQp::qp1, Datagram(reply(two)).mad());
  EXPECT_EQ(answered, (Dispatcher::Decision{.client = second, .is_reply = true}));
  EXPECT_EQ(taker(Datagram(reply(two))), std::nullopt);
  EXPECT_EQ(taker(Datagram(reply(one))), first);
  EXPECT_EQ(dispatcher_.deadline(), kNever);
}

TEST_F(DispatcherTest, ReplyMustFitItsRequest) {
  const ClientId client = add({});
  const std::uint64_t id = ask(client, 1);
  EXPECT_EQ(taker(Datagram(reply(id + 1))), std::nullopt);
  EXPECT_EQ(taker(Datagram(reply(id), 2)), std::nullopt);  // Of somebody else.
  EXPECT_EQ(taker(Datagram(reply(id)), SpecialQp::qp0), std::nullopt);
  auto other_class = reply(id);
  other_class.management_class = MadClass{0x04};
  EXPECT_EQ(taker(Datagram(other_class)), std::nullopt);
  EXPECT_EQ(taker(Datagram(reply(id))), client);
}

TEST_F(DispatcherTest, DirectedRouteNamesNoPeer) {
  const ClientId client = add({.qp = SpecialQp::qp0});
  const wire::MadHeader header{
      .management_class = kDirectedRoute, .method = MadMethod::get, .transaction = 7};
  const Datagram request(header, 1);
  const auto sent = dispatcher_.expect_reply(client, request.mad(), kNever);
  ASSERT_TRUE(sent);
  const Datagram from_elsewhere(
      {.management_class = kDirectedRoute, .method = MadMethod::get_response, .transaction = *sent},
      2);
  EXPECT_EQ(taker(from_elsewhere, SpecialQp::qp0), client);
}

TEST_F(DispatcherTest, SegmentHasAnAddresseeWhetherItsMessageIsAwaitedOrNot) {
  const ClientId client =
      add({.management_class = kAdministration, .methods = methods({MadMethod::get_table})});
  const wire::MadHeader request{.management_class = kAdministration,
                                .method = MadMethod::get_table};
  EXPECT_EQ(dispatcher_.addressee(SpecialQp::qp1, Datagram(request).mad()), client);
  const wire::MadHeader response{.management_class = kAdministration,
                                 .method = MadMethod::get_table_response,
                                 .transaction = std::uint64_t{raw(client)} << 32 | 5};
  EXPECT_EQ(dispatcher_.addressee(SpecialQp::qp1, Datagram(response).mad()), client);
  EXPECT_EQ(dispatcher_.addressee(SpecialQp::qp0, Datagram(response).mad()), std::nullopt);
  EXPECT_EQ(taker(Datagram(response)), std::nullopt);
  dispatcher_.remove(client);
  EXPECT_EQ(dispatcher_.addressee(SpecialQp::qp1, Datagram(response).mad()), std::nullopt);
  EXPECT_EQ(dispatcher_.addressee(SpecialQp::qp1, Datagram(request).mad()), std::nullopt);
}

TEST_F(DispatcherTest, ResponseThatNobodyAwaitsIsNotAnswered) {
  add({.management_class = kAdministration, .methods = std::bitset<128>().set()});
  const auto decision = dispatcher_.route(SpecialQp::qp1, Datagram(reply(5)).mad());
  EXPECT_EQ(decision, Dispatcher::Decision{});
  const wire::MadHeader repress{.management_class = kAdministration, .method = kTrapRepress};
  EXPECT_EQ(taker(Datagram(repress)), std::nullopt);
  EXPECT_TRUE(is_response(repress));
  // Nothing here serves baseboard management.
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  wire::MadHeader baseboard{.management_class = MadClass{0x05}, .method = MadMethod::send};
  EXPECT_FALSE(is_response(baseboard));
  baseboard.modifier = 1;
  EXPECT_TRUE(is_response(baseboard));
}

TEST_F(DispatcherTest, OnlyRequestsOfClientsAwaitReplies) {
  const ClientId client = add({});
  const Datagram response(reply(1));
  EXPECT_EQ(dispatcher_.expect_reply(client, response.mad(), 1).error().code, EINVAL);
  const Datagram request({.management_class = kAdministration, .method = MadMethod::get});
  EXPECT_EQ(dispatcher_.expect_reply(ClientId{77}, request.mad(), 1).error().code, EINVAL);
  EXPECT_TRUE(dispatcher_.expect_reply(client, request.mad(), 1));
  EXPECT_EQ(dispatcher_.expect_reply(client, request.mad(), 1).error().code, EINVAL);
}

TEST_F(DispatcherTest, GetAndSetWithoutAClientAreAnswered) {
  for (const MadMethod method : {MadMethod::get, MadMethod::set, MadMethod::send, kReport}) {
    const Datagram request({.management_class = kAdministration, .method = method});
    EXPECT_EQ(dispatcher_.route(SpecialQp::qp1, request.mad()),
              (Dispatcher::Decision{.answer_unsupported =
                                        method == MadMethod::get || method == MadMethod::set}));
  }
  Datagram damaged({.management_class = kAdministration, .method = MadMethod::get});
  damaged.bytes[0] = std::byte{2};  // Base version.
  EXPECT_EQ(dispatcher_.route(SpecialQp::qp1, damaged.mad()), Dispatcher::Decision{});
}

TEST_F(DispatcherTest, WhatAQueuePairDiscardsIsNotAnswered) {
  using enum MadMethod;
  constexpr auto kCm = wire::MadClass::communication_management;
  constexpr std::uint16_t kRequest = 0x0010, kClassPortInfo = 0x0001;
  struct Row {
    SpecialQp qp;
    wire::MadClass management_class;
    MadMethod method;
    std::uint16_t attribute;
    bool is_answered;
  };
  const Row rows[] = {{SpecialQp::qp1, wire::MadClass{0x01}, get, 0x0015, false},
                      {SpecialQp::qp1, wire::MadClass{0x81}, get, 0x0015, false},
                      {SpecialQp::qp0, wire::MadClass{0x01}, get, 0x0015, true},
                      {SpecialQp::qp0, kAdministration, get, 0x0035, false},
                      {SpecialQp::qp1, kCm, get, kRequest, false},
                      {SpecialQp::qp1, kCm, set, kRequest, false},
                      {SpecialQp::qp1, kCm, get, kClassPortInfo, true},
                      {SpecialQp::qp1, kAdministration, get, 0x0035, true}};
  for (const Row& row : rows) {
    const Datagram request({.management_class = row.management_class,
                            .method = row.method,
                            .attribute = row.attribute});
    EXPECT_EQ(dispatcher_.route(row.qp, request.mad()),
              Dispatcher::Decision{.answer_unsupported = row.is_answered})
        << static_cast<int>(row.qp) << " class " << raw(row.management_class) << " method "
        << raw(row.method) << " attribute " << row.attribute;
  }
}

TEST_F(DispatcherTest, UnsupportedAnswerIsTheRequestWithAStatus) {
  wire::MadHeader header{.management_class = kAdministration,
                         .method = MadMethod::set,
                         .transaction = 0x1234,
                         .attribute = 0x35,
                         .modifier = 6};
  Datagram request(header);
  request.bytes.back() = std::byte{0x5a};
  auto answer = unsupported_answer(request.bytes);
  header.method = MadMethod::get_response;
  header.status = 0x000c;
  EXPECT_EQ(wire::decode_mad_header(answer), header);
  EXPECT_EQ(answer.back(), std::byte{0x5a});
  // Of a directed route the highest bit is the direction.
  request.bytes[1] = std::byte{0x81};
  EXPECT_EQ(wire::decode_mad_header(unsupported_answer(request.bytes))->status, 0x800c);
}

TEST_F(DispatcherTest, RequestsExpireInTheirOrder) {
  const ClientId client = add({});
  const std::uint64_t late = ask(client, 1, 300);
  const std::uint64_t early = ask(client, 2, 100);
  const std::uint64_t answered = ask(client, 3, 50);
  EXPECT_EQ(dispatcher_.deadline(), 50);
  EXPECT_EQ(taker(Datagram(reply(answered))), client);
  EXPECT_EQ(dispatcher_.deadline(), 100);
  EXPECT_EQ(dispatcher_.take_expired(99), std::nullopt);
  EXPECT_EQ(dispatcher_.take_expired(1000), (std::pair{client, early}));
  EXPECT_EQ(taker(Datagram(reply(early))), std::nullopt);
  EXPECT_EQ(dispatcher_.take_expired(1000), (std::pair{client, late}));
  EXPECT_EQ(dispatcher_.take_expired(1000), std::nullopt);
  EXPECT_EQ(dispatcher_.deadline(), kNever);
}

TEST_F(DispatcherTest, WhoHasGoneGetsNothing) {
  Registration registration{.management_class = kAdministration,
                            .methods = methods({MadMethod::get})};
  const ClientId gone = add(registration);
  const ClientId stays = add({});
  const std::uint64_t lost = ask(gone, 1, 10);
  const std::uint64_t kept = ask(stays, 1, 20);
  dispatcher_.remove(gone);
  EXPECT_EQ(taker(Datagram(reply(lost))), std::nullopt);
  const Datagram request({.management_class = kAdministration, .method = MadMethod::get});
  EXPECT_TRUE(dispatcher_.route(SpecialQp::qp1, request.mad()).answer_unsupported);
  EXPECT_EQ(dispatcher_.deadline(), 20);
  EXPECT_EQ(taker(Datagram(reply(kept))), stays);
  // Its number does not come again: a late reply is for nobody.
  EXPECT_NE(add(registration), gone);
}

TEST_F(DispatcherTest, ClientsAndTheirRequestsAreBounded) {
  const ClientId busy = add({});
  const ClientId other = add({});
  for (std::uint64_t i = 0; i < Dispatcher::kRequestsMax; ++i) ask(busy, i);
  const Datagram request({.management_class = kAdministration,
                          .method = MadMethod::get,
                          .transaction = Dispatcher::kRequestsMax});
  EXPECT_EQ(dispatcher_.expect_reply(busy, request.mad(), 1).error().code, ENOBUFS);
  EXPECT_TRUE(dispatcher_.expect_reply(other, request.mad(), 1));
  for (std::size_t i = 2; i < Dispatcher::kClientsMax; ++i) add({});
  EXPECT_EQ(refused({}), EMFILE);
  dispatcher_.remove(busy);
  EXPECT_EQ(refused({}), 0);
}

}  // namespace
}  // namespace verbatim::mad
