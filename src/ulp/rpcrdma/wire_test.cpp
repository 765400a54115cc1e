#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/rpcrdma/captured_for_test.h"
#include "ulp/rpcrdma/data_items.h"
#include "ulp/rpcrdma/wire/header.h"
#include "ulp/rpcrdma/wire/private_data.h"

namespace verbatim::ulp::rpcrdma {
namespace {

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

Slice slice_of(std::span<std::byte> bytes) {
  return {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}};
}

TEST(RpcRdmaHeader, CapturedMessagesAreDecodedAndEncodeToTheSameBytes) {
  for (const char* const hex : {kLinuxRead, kLinuxReadDone, kLinuxWrite, kLinuxOpenDone}) {
    const auto message = bytes_of_hex(hex);
    Header header;
    const auto bytes = decode(message, header);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(encoded_bytes(header), *bytes);
    std::vector<std::byte> again(*bytes);
    EXPECT_EQ(encode(header, again), *bytes);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), message.begin()));
  }
}

TEST(RpcRdmaHeader, ReadOfLinuxNamesOneWriteChunk) {
  const auto message = bytes_of_hex(kLinuxRead);
  Header header;
  ASSERT_TRUE(decode(message, header));
  EXPECT_EQ(header.xid, 0x287a5adau);
  EXPECT_EQ(header.credits, 128u);
  EXPECT_TRUE(header.reads.empty());
  ASSERT_EQ(header.write_sizes.size(), 1u);
  EXPECT_EQ(header.writes[0], (RemoteRange{0x287a5ada8ab15000, 16384, MemoryKey{0x608}}));
  EXPECT_FALSE(header.reply);
}

TEST(RpcRdmaHeader, RFC8166_4_5_FaultsAreToldApart) {
  auto message = bytes_of_hex(kLinuxRead);
  Header header;
  EXPECT_EQ(decode(ByteSpan(message).first(15), header).error(), HeaderFault::too_short);
  message[7] = std::byte{2};
  EXPECT_EQ(decode(message, header).error(), HeaderFault::version);
  message[7] = std::byte{1};
  message[15] = std::byte{2};  // RDMA_MSGP.
  EXPECT_EQ(decode(message, header).error(), HeaderFault::chunk);
  message[15] = std::byte{0};
  message[19] = std::byte{3};  // No bool.
  EXPECT_EQ(decode(message, header).error(), HeaderFault::chunk);
  message[19] = std::byte{0};
  message[24] = std::byte{0xff};  // Segments without end.
  EXPECT_EQ(decode(message, header).error(), HeaderFault::chunk);
}

TEST(RpcRdmaPrivateData, OfLinuxClientAndServer) {
  const auto client = bytes_of_hex("f6ab0e1801010303000000");
  EXPECT_EQ(decode_facts(client), (ConnectionFacts{true, 4096, 4096}));
  EXPECT_EQ(encode(ConnectionFacts{true, 4096, 4096})[5], std::byte{1});
  EXPECT_FALSE(decode_facts(std::vector<std::byte>(56)));  // Zeros: it says nothing.
}

/// Behind the header.
Slice payload_of(std::vector<std::byte>& message) {
  Header header;
  const std::size_t bytes = decode(message, header).value_or(0);
  return slice_of(std::span(message).subspan(bytes));
}

TEST(NfsDataItems, CallsOfLinuxAreUnderstood) {
  auto message = bytes_of_hex(kLinuxRead);
  Slice payload = payload_of(message);
  XdrReader reader({&payload, 1});
  const auto call = read_call(reader);
  ASSERT_TRUE(call);
  EXPECT_EQ(*call, (RpcCall{0x287a5ada, 100003, 4, 1, false}));
  const CallShape shape = shape_of(*call, reader);
  ASSERT_EQ(shape.results.size(), 1u);
  EXPECT_EQ(shape.results[0].bytes, 16384u);
  EXPECT_LT(shape.reply_bytes, 400u);
  EXPECT_TRUE(shape.arguments.empty());
}

TEST(NfsDataItems, PlaceOfReadDataInAReducedReply) {
  auto message = bytes_of_hex(kLinuxReadDone);
  Slice payload = payload_of(message);
  const RpcCall call{0x277a5ada, 100003, 4, 1, false};
  const DataItems items = items_of_reply(call, {&payload, 1}, true);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0], (DataItem{payload.bytes, 131072}));  // It stands last.
  EXPECT_TRUE(items_of_reply({0x277a5ada, 100003, 4, 1, true}, {&payload, 1}, true).empty());
}

/// Fields of COMPOUND's operations, with an operation behind them that must be found.
TEST(NfsDataItems, OperationsBeforeAReadAreWalkedOver) {
  const struct {
    const char* arguments;
  } rows[] = {
      {"00000003 00000001"},                                                     // ACCESS
      {"00000012 00000000 00000001 00000000 0000000000000007 00000003 61626300"  // OPEN, a name
       "00000000 00000000 00000001 78000000"},
      {"00000012 00000000 00000002 00000000 0000000000000007 00000003 61626300"  // guarded,
       "00000001 00000001 00000001 00000010 00000008 0000000000000000"           // by handle
       "00000004"},
      {"0000000c 00000001 00000000 0000000000000000 0000000000000009"  // LOCK, a new owner
       "00000001 00000000 00000000000000000000000000000000 00000000"
       "0000000000000007 00000001 61000000"},
      {"00000006 00000005 00000002 61620000 00000001 61000000"  // CREATE of a link
       "00000000 00000000"},
  };
  for (const auto& row : rows) {
    std::string hex = "00000000 00000001 00000002";  // No tag, minor version 1, two operations.
    hex += row.arguments;
    hex += "00000019 00000000000000000000000000000000 0000000000000000 00004000";  // READ.
    std::erase(hex, ' ');
    auto bytes = bytes_of_hex(hex);
    const Slice slice = slice_of(bytes);
    const CallShape shape = shape_of({1, 100003, 4, 1, false}, XdrReader({&slice, 1}));
    ASSERT_EQ(shape.results.size(), 1u) << row.arguments;
    EXPECT_EQ(shape.results[0].bytes, 0x4000u);
    EXPECT_LT(shape.reply_bytes, kMessageMax);
  }
}

TEST(XdrReader, ReadsAcrossPiecesAndStopsAtTheEnd) {
  std::byte memory[12] = {};
  store_be(memory, 1u);
  store_be(memory + 4, 3u);
  const Slice pieces[] = {{memory, 4, {}}, {memory, 0, {}}, {memory + 4, 8, {}}};
  XdrReader reader(pieces);
  EXPECT_EQ(reader.word(), 1u);
  EXPECT_EQ(reader.opaque(), 3u);
  EXPECT_EQ(reader.position(), 12u);
  EXPECT_TRUE(reader.is_ok());
  EXPECT_EQ(reader.word(), 0u);
  EXPECT_FALSE(reader.is_ok());
}

}  // namespace
}  // namespace verbatim::ulp::rpcrdma
