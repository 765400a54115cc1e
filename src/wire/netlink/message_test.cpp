#include "wire/netlink/message.h"

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/netlink/rdma_request.h"

namespace verbatim::wire::netlink {
namespace {

// What iproute2 6.1 sends on a little-endian machine: it asks for all devices, then for the first
// one's port (`rdma link show verbatim0/1`), or for what is on it (`rdma res show qp`).
constexpr const char* kDumpDevices = "10000000 0114 0503 e2ac086b 00000000";
constexpr const char* kGetPort =
    "20000000 0514 0500 e2ac086b 00000000 0800 0100 00000000 0800 0300 01000000";
constexpr const char* kDumpQueuePairs = "18000000 0a14 0503 e2ac086b 00000000 0800 0100 00000000";

TEST(NetlinkMessage, RequestsOfIproute2AreDecoded) {
  auto bytes = from_hex(kDumpDevices);
  ByteSpan rest = bytes;
  const auto dump = take_message(rest);
  ASSERT_TRUE(dump);
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(dump->header,
            (Header{.type = 0x1401, .flags = 0x305, .sequence = 0x6b08ace2, .port = 0}));
  const auto request = decode_rdma_request(*dump);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->client, RDMA_NL_NLDEV);
  EXPECT_EQ(request->operation, RDMA_NLDEV_CMD_GET);
  EXPECT_FALSE(request->number(RDMA_NLDEV_ATTR_DEV_INDEX));

  bytes = from_hex(kGetPort);
  rest = bytes;
  const auto port = decode_rdma_request(*take_message(rest));
  ASSERT_TRUE(port);
  EXPECT_EQ(port->operation, RDMA_NLDEV_CMD_PORT_GET);
  EXPECT_EQ(port->number(RDMA_NLDEV_ATTR_DEV_INDEX), 0u);
  EXPECT_EQ(port->number(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);

  bytes = from_hex(kDumpQueuePairs);
  rest = bytes;
  const auto pairs = decode_rdma_request(*take_message(rest));
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->operation, RDMA_NLDEV_CMD_RES_QP_GET);
  EXPECT_EQ(pairs->number(RDMA_NLDEV_ATTR_DEV_INDEX), 0u);
}

TEST(NetlinkMessage, WhatIsWrittenIsRead) {
  MessageWriter out({.type = 0x1401, .flags = 2, .sequence = 7, .port = 9});
  out.put_number(1, std::uint32_t{5});
  out.put_text(2, "verbatim0");
  const std::size_t nest = out.begin_nest(3);
  out.put_number(4, std::uint8_t{6});
  out.end_nest(nest);
  const auto bytes = std::move(out).finish();
  ByteSpan rest = bytes;
  const auto message = take_message(rest);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->header, (Header{.type = 0x1401, .flags = 2, .sequence = 7, .port = 9}));
  ByteSpan attributes = message->attributes();
  EXPECT_EQ(take_attribute(attributes)->number<std::uint32_t>(), 5u);
  EXPECT_EQ(take_attribute(attributes)->text(), "verbatim0");
  const auto nested = take_attribute(attributes);
  ByteSpan inner = nested->value;
  EXPECT_EQ(take_attribute(inner)->number<std::uint8_t>(), 6u);
  EXPECT_FALSE(take_attribute(inner));
  EXPECT_FALSE(take_attribute(attributes));
  EXPECT_EQ(bytes.size() % 4, 0u);
}

TEST(NetlinkMessage, NothingShorterThanItSaysIsTaken) {
  const auto bytes = from_hex(kGetPort);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    ByteSpan rest = cut;
    EXPECT_FALSE(take_message(rest)) << size;
  }
  for (const char* attribute : {"0300 0100", "0900 0100 00000000", "00"}) {
    const auto malformed = from_hex(attribute);
    ByteSpan rest = malformed;
    EXPECT_FALSE(take_attribute(rest)) << attribute;
  }
}

TEST(RdmaRequest, ANumberThatIsTooShortAndATextWithoutEndAreRefused) {
  for (const char* request : {"18000000 0114 0100 00000000 00000000 0600 0100 0000 0000",
                              "18000000 0f14 0100 00000000 00000000 0800 4500 75766572"}) {
    const auto bytes = from_hex(request);
    ByteSpan rest = bytes;
    const auto message = take_message(rest);
    ASSERT_TRUE(message) << request;
    EXPECT_FALSE(decode_rdma_request(*message)) << request;
  }
}

}  // namespace
}  // namespace verbatim::wire::netlink
