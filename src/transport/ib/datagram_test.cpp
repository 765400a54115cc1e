#include "transport/ib/datagram.h"

#include <array>
#include <cstddef>

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using wire::Position;
using wire::Service;
using wire::Verb;

constexpr DatagramConfig kConfig{
    .qpn = Qpn(0x123456), .pkey = kDefaultPKey, .qkey = QKey{0x11111111}, .mtu = Mtu::k256};
constexpr DatagramDestination kDestination{.qpn = Qpn(0x777), .qkey = QKey{0x22222222}};
constexpr std::array<std::byte, 4096> kBytes{};

SendRequest send(std::uint64_t length, Operation operation = Operation::send) {
  return {.operation = operation, .immediate = 0xdeadbeef, .length = length};
}

/// A packet that the queue pair of `kConfig` accepts.
wire::Packet incoming(std::size_t length) {
  wire::Packet packet;
  packet.headers.bth.opcode = wire::opcode_of(Service::ud, Verb::send, Position::only);
  packet.headers.deth = {.qkey = kConfig.qkey, .source_qp = Qpn(5)};
  packet.payload = ByteSpan(kBytes).first(length);
  return packet;
}

TEST(MakeDatagram, FillsBthAndDeth) {
  const auto packet = make_datagram(kConfig, kDestination, send(9), 42, Psn(0xffffff));
  ASSERT_TRUE(packet);
  const wire::Bth& bth = packet->headers.bth;
  EXPECT_EQ(bth.opcode, wire::opcode_of(Service::ud, Verb::send, Position::only));
  EXPECT_EQ(bth.dest_qp, Qpn(0x777));
  EXPECT_EQ(bth.psn, Psn(0xffffff));
  EXPECT_EQ(bth.pad_count, 3);
  EXPECT_FALSE(bth.ack_request);
  EXPECT_FALSE(bth.solicited_event);
  EXPECT_EQ(packet->headers.deth.source_qp, Qpn(0x123456));
  EXPECT_EQ(packet->payload.from, PayloadSource::From::request);
  EXPECT_EQ(packet->payload.slot, 42u);
  EXPECT_EQ(packet->payload.offset, 0u);
  EXPECT_EQ(packet->payload.length, 9u);
}

TEST(MakeDatagram, CarriesImmediateAndSolicitedEvent) {
  SendRequest request = send(0, Operation::send_with_immediate);
  request.solicited = true;
  const auto packet = make_datagram(kConfig, kDestination, request, 0, Psn(0));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->headers.bth.opcode,
            wire::opcode_of(Service::ud, Verb::send, Position::only, true));
  EXPECT_EQ(packet->headers.immediate, 0xdeadbeef);
  EXPECT_TRUE(packet->headers.bth.solicited_event);
  EXPECT_EQ(packet->payload.from, PayloadSource::From::nothing);
}

TEST(MakeDatagram, QKeyOfTheRequestUnlessItIsControlled) {
  const auto own = make_datagram(kConfig, kDestination, send(1), 0, Psn(0));
  EXPECT_EQ(own->headers.deth.qkey, QKey{0x22222222});
  DatagramDestination controlled = kDestination;
  controlled.qkey = QKey{0x80000000};
  const auto replaced = make_datagram(kConfig, controlled, send(1), 0, Psn(0));
  EXPECT_EQ(replaced->headers.deth.qkey, kConfig.qkey);
}

TEST(MakeDatagram, OnePacketIsTheLimit) {
  EXPECT_TRUE(make_datagram(kConfig, kDestination, send(256), 0, Psn(0)));
  const auto longer = make_datagram(kConfig, kDestination, send(257), 0, Psn(0));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error(), Status::local_length_error);
}

TEST(MakeDatagram, OnlySendIsServed) {
  for (const Operation operation :
       {Operation::write, Operation::write_with_immediate, Operation::read,
        Operation::compare_and_swap, Operation::fetch_and_add}) {
    const auto packet = make_datagram(kConfig, kDestination, send(8, operation), 0, Psn(0));
    ASSERT_FALSE(packet);
    EXPECT_EQ(packet.error(), Status::local_qp_operation_error);
  }
}

TEST(CheckDatagram, AcceptsUpToTheMtu) {
  EXPECT_TRUE(check_datagram(kConfig, incoming(0)));
  EXPECT_TRUE(check_datagram(kConfig, incoming(256)));
  EXPECT_EQ(check_datagram(kConfig, incoming(257)).error(), DatagramDrop::too_long);
}

TEST(CheckDatagram, WhatOneSideSendsTheOtherAccepts) {
  const auto sent = make_datagram({.qpn = Qpn(5), .qkey = QKey{1}, .mtu = Mtu::k256},
                                  {.qpn = kConfig.qpn, .qkey = kConfig.qkey}, send(100), 0, Psn(7));
  EXPECT_TRUE(check_datagram(kConfig, {sent->headers, ByteSpan(kBytes).first(100)}));
}

TEST(CheckDatagram, DropsOtherServices) {
  for (const Service service : {Service::rc, Service::uc}) {
    wire::Packet packet = incoming(8);
    packet.headers.bth.opcode = wire::opcode_of(service, Verb::send, Position::only);
    EXPECT_EQ(check_datagram(kConfig, packet).error(), DatagramDrop::wrong_opcode);
  }
  wire::Packet unknown = incoming(8);
  unknown.headers.bth.opcode = wire::Opcode{0xff};
  EXPECT_EQ(check_datagram(kConfig, unknown).error(), DatagramDrop::wrong_opcode);
}

TEST(CheckDatagram, QKeyMustBeEqual) {
  wire::Packet packet = incoming(8);
  packet.headers.deth.qkey = QKey{0x11111112};
  EXPECT_EQ(check_datagram(kConfig, packet).error(), DatagramDrop::wrong_qkey);
}

TEST(CheckDatagram, QueuePairZeroHasNoQKey) {
  DatagramConfig config = kConfig;
  config.qpn = Qpn(0);
  wire::Packet packet = incoming(8);
  packet.headers.deth.qkey = QKey{0};
  EXPECT_TRUE(check_datagram(config, packet));
}

TEST(CheckDatagram, PKeyMustMatch) {
  wire::Packet packet = incoming(8);
  packet.headers.bth.pkey = PKey{0x8001};
  EXPECT_EQ(check_datagram(kConfig, packet).error(), DatagramDrop::wrong_pkey);
}

TEST(PKeysMatch, EqualPartitionAndOneFullMember) {
  EXPECT_TRUE(wire::pkeys_match(PKey{0xffff}, PKey{0xffff}));
  EXPECT_TRUE(wire::pkeys_match(PKey{0xffff}, PKey{0x7fff}));
  EXPECT_TRUE(wire::pkeys_match(PKey{0x0001}, PKey{0x8001}));
  EXPECT_FALSE(wire::pkeys_match(PKey{0x7fff}, PKey{0x7fff})) << "two limited members";
  EXPECT_FALSE(wire::pkeys_match(PKey{0x8001}, PKey{0x8002}));
  EXPECT_FALSE(wire::pkeys_match(PKey{0x8000}, PKey{0x8000})) << "partition 0 is none";
}

}  // namespace
}  // namespace verbatim::transport
