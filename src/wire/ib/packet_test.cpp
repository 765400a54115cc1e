#include "wire/ib/packet.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

constexpr std::array<std::byte, 5> kPayload{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                            std::byte{5}};

std::vector<Opcode> known_opcodes() {
  std::vector<Opcode> opcodes;
  for (unsigned i = 0; i < kOpcodes.size(); ++i) {
    if (kOpcodes[i].known) opcodes.push_back(static_cast<Opcode>(i));
  }
  return opcodes;
}

/// Sets every field of the opcode, each to a different value.
Headers sample(Opcode opcode) {
  const OpcodeInfo& row = info(opcode);
  Headers headers;
  headers.bth = {.opcode = opcode,
                 .solicited_event = true,
                 .pkey = PKey{0x8002},
                 .dest_qp = Qpn(0x000011),
                 .ack_request = true,
                 .psn = Psn(0xffeedd)};
  if (row.has(kXrcEth)) headers.xrc_eth = {.srq = SrqNumber{0x333333}};
  if (row.has(kDeth)) headers.deth = {.qkey = QKey{0x11111111}, .source_qp = Qpn(0x222222)};
  if (row.has(kReth)) {
    headers.reth = {.address = 0x1000200030004000, .key = MemoryKey{0x51525354}, .length = 5};
  }
  if (row.has(kAtomicEth)) {
    headers.atomic_eth = {.address = 0x6000700080009000,
                          .key = MemoryKey{0x61626364},
                          .swap_or_add = 0x7172737475767778,
                          .compare = 0x8182838485868788};
  }
  if (row.has(kAeth)) headers.aeth = {.syndrome = Syndrome::ack(9), .msn = Msn(0x919293)};
  if (row.has(kAtomicAckEth)) headers.atomic_ack = 0xa1a2a3a4a5a6a7a8;
  if (row.has(kImmediate)) headers.immediate = to_big_endian(0xb1b2b3b4u);
  if (row.has(kIeth)) headers.invalidate_key = MemoryKey{0xc1c2c3c4};
  if (row.has(kFeth)) {
    headers.feth = {.placement = Feth::kGlobal, .selectivity = Feth::Selectivity::region};
  }
  return headers;
}

std::vector<std::byte> encoded(Headers headers, ByteSpan payload) {
  headers.bth.pad_count = static_cast<std::uint8_t>(-payload.size() & 3);
  std::array<std::byte, kHeadersMaxBytes> out;
  const std::size_t size = encode_headers(headers, out);
  std::vector<std::byte> bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + headers.bth.pad_count);
  return bytes;
}

std::vector<std::byte> encoded(Opcode opcode) {
  return encoded(sample(opcode), info(opcode).has_payload ? ByteSpan(kPayload) : ByteSpan());
}

TEST(Packet, KnowsTheOpcodesOfRcUcUdAndXrc) {
  EXPECT_EQ(known_opcodes().size(), 25u + 12u + 2u + 25u);
}

TEST(Packet, EveryOpcodeSurvivesTheRoundTrip) {
  for (const Opcode opcode : known_opcodes()) {
    SCOPED_TRACE(raw(opcode));
    const auto bytes = encoded(opcode);
    const bool has_payload = info(opcode).has_payload;
    EXPECT_EQ(bytes.size(), Bth::kSize + info(opcode).header_bytes() + (has_payload ? 8 : 0));
    const auto packet = decode_packet(bytes);
    ASSERT_TRUE(packet.has_value());
    Headers expected = sample(opcode);
    expected.bth.pad_count = has_payload ? 3 : 0;
    EXPECT_EQ(packet->headers, expected);
    EXPECT_EQ(to_hex(packet->payload), has_payload ? "0102030405" : "");
  }
}

/// Each length gets its own allocation, so that a sanitizer sees a read past the end.
TEST(Packet, EveryTruncationOfEveryOpcodeIsRefused) {
  for (const Opcode opcode : known_opcodes()) {
    const auto whole = encoded(sample(opcode),
                               info(opcode).has_payload ? ByteSpan(kPayload).first(1) : ByteSpan());
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto cut = std::make_unique<std::byte[]>(length);
      std::copy_n(whole.begin(), length, cut.get());
      EXPECT_FALSE(decode_packet({cut.get(), length}).has_value())
          << "opcode " << raw(opcode) << " cut to " << length;
    }
  }
}

TEST(Packet, GoldenBytesOfEachCombinationOfHeaders) {
  const auto golden = [](unsigned opcode) {
    return to_hex(encoded(sample(static_cast<Opcode>(opcode)), {}));
  };
  constexpr const char* kRest = "c080020000001180ffeedd";  // The BTH after the opcode.
  EXPECT_EQ(golden(0x04), std::string("04") + kRest);
  EXPECT_EQ(golden(0x05), std::string("05") + kRest + "b1b2b3b4");
  EXPECT_EQ(golden(0x17), std::string("17") + kRest + "c1c2c3c4");
  EXPECT_EQ(golden(0x2b), std::string("2b") + kRest + "10002000300040005152535400000005b1b2b3b4");
  EXPECT_EQ(golden(0x11), std::string("11") + kRest + "09919293");
  EXPECT_EQ(golden(0x12), std::string("12") + kRest + "09919293a1a2a3a4a5a6a7a8");
  EXPECT_EQ(golden(0x13),
            std::string("13") + kRest + "60007000800090006162636471727374757677788182838485868788");
  EXPECT_EQ(golden(0xa4), std::string("a4") + kRest + "00333333");
  EXPECT_EQ(golden(0xac),
            std::string("ac") + kRest + "00333333" + "10002000300040005152535400000005");
  EXPECT_EQ(golden(0xb1), std::string("b1") + kRest + "09919293");
  EXPECT_EQ(golden(0x65), std::string("65") + kRest + "1111111100222222b1b2b3b4");
}

/// Whatever follows the BTH: responders of reliable services answer what others drop (IBA 9.9.3).
TEST(Packet, InvalidRequestsOfReliableServicesAreKept) {
  for (unsigned i = 0; i < 256; ++i) {
    const OpcodeInfo& opcode = info(Opcode{static_cast<std::uint8_t>(i)});
    std::vector<std::byte> bytes(Bth::kSize + 1);
    bytes[0] = static_cast<std::byte>(i);
    ASSERT_FALSE(decode_packet(bytes)) << i;
    const auto found = decode_invalid_request(bytes);
    const bool is_reliable_one = i >> 5 == 0 || i >> 5 == 5;
    const bool is_response = opcode.known && !opcode.is_request;
    ASSERT_EQ(found.has_value(), is_reliable_one && !is_response) << i;
    if (!found) continue;
    EXPECT_TRUE(found->is_invalid);
    EXPECT_EQ(raw(found->headers.bth.opcode), i);
    EXPECT_TRUE(found->payload.empty());
    bytes[1] = std::byte{0x01};  // Another transport version: not even the BTH is valid.
    EXPECT_FALSE(decode_invalid_request(bytes));
    EXPECT_FALSE(decode_invalid_request(ByteSpan(bytes).first(Bth::kSize - 1)));
  }
}

TEST(Packet, UnknownOpcodesAreRefused) {
  for (unsigned i = 0; i < 256; ++i) {
    if (kOpcodes[i].known) continue;
    std::vector<std::byte> bytes(64);
    bytes[0] = static_cast<std::byte>(i);
    EXPECT_EQ(decode_packet(bytes).error(), WireError::unknown_opcode) << i;
  }
}

TEST(Packet, PayloadOnAnAcknowledgementIsRefused) {
  auto bytes = encoded(Opcode{0x11});
  bytes.resize(bytes.size() + 4);
  EXPECT_EQ(decode_packet(bytes).error(), WireError::unexpected_payload);
}

TEST(Packet, UnpaddedPayloadIsRefused) {
  auto bytes = encoded(Opcode{0x04});
  bytes.resize(bytes.size() + 1);
  EXPECT_EQ(decode_packet(bytes).error(), WireError::unaligned_length);
}

TEST(Packet, PaddingWithoutPayloadIsRefused) {
  for (const unsigned opcode : {0x04u, 0x11u, 0x0cu}) {
    auto bytes = encoded(sample(static_cast<Opcode>(opcode)), {});
    bytes[1] |= std::byte{0x10};
    EXPECT_EQ(decode_packet(bytes).error(), WireError::bad_padding) << opcode;
  }
}

TEST(Packet, ReservedSyndromeIsRefused) {
  auto bytes = encoded(Opcode{0x11});
  bytes[Bth::kSize] = std::byte{0x7f};
  EXPECT_EQ(decode_packet(bytes).error(), WireError::reserved_syndrome);
}

TEST(Packet, PayloadIsBorrowedFromTheBytes) {
  const auto bytes = encoded(Opcode{0x04});
  EXPECT_EQ(decode_packet(bytes)->payload.data(), bytes.data() + Bth::kSize);
}

}  // namespace
}  // namespace verbatim::wire
