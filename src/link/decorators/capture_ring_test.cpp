#include "link/decorators/capture_ring.h"

#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/capture_file/capture_file.h"
#include "wire/hex_test_util.h"
#include "wire/ib/packet.h"
#include "wire/net/icrc.h"

namespace verbatim::link {
namespace {

using Bytes = std::vector<std::byte>;

void add(CaptureRing& ring, const Bytes& bytes, const CapturedPacket& packet = {}) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ring.add(packet, std::span(&piece, 1), 0, bytes.size());
}

CaptureReader reader_of(const CaptureRing& ring) {
  auto reader = CaptureReader::open(UniqueFd(dup(ring.fd())));
  EXPECT_TRUE(reader) << reader.error().text;
  return std::move(*reader);
}

TEST(CaptureRing, PacketsComeOutAsTheyWentIn) {
  const auto ring = CaptureRing::create(4096).value();
  CaptureReader reader = reader_of(*ring);
  CapturedPacket packet;
  ByteSpan bytes;
  EXPECT_FALSE(reader.next(packet, bytes));
  // Bytes 3 to 6 of three pieces.
  Bytes content = wire::from_hex("00010203040506070809");
  const std::array<iovec, 3> pieces{iovec{content.data(), 2}, iovec{content.data() + 2, 3},
                                    iovec{content.data() + 5, 5}};
  ring->add({.time = 7, .identification = 3, .remark = Remark::delayed}, pieces, 3, 4);
  ASSERT_TRUE(reader.next(packet, bytes));
  EXPECT_EQ(wire::to_hex(bytes), "03040506");
  EXPECT_EQ(packet.time, 7u);
  EXPECT_EQ(packet.identification, 3u);
  EXPECT_EQ(packet.remark, Remark::delayed);
  EXPECT_FALSE(reader.next(packet, bytes));
}

TEST(CaptureRing, AFullRingDropsAndCountsAndGoesOn) {
  const auto ring = CaptureRing::create(4096).value();
  CaptureReader reader = reader_of(*ring);
  const Bytes thousand(1'000, std::byte{1});
  for (int i = 0; i < 5; ++i) add(*ring, thousand);
  EXPECT_EQ(reader.packets(), 5u);
  EXPECT_EQ(reader.dropped(), 2u);
  CapturedPacket packet;
  ByteSpan bytes;
  int read = 0;
  for (int i = 0; i < 20; ++i) {  // Wraps around several times.
    while (reader.next(packet, bytes)) {
      ++read;
      EXPECT_EQ(bytes.size(), 1'000u);
    }
    add(*ring, thousand);
  }
  EXPECT_EQ(read, 3 + 19);
  EXPECT_EQ(reader.dropped(), 2u);
}

TEST(CaptureRing, AReaderBesideTheWriterSeesWholePackets) {
  const auto ring = CaptureRing::create(1 << 16).value();
  CaptureReader reader = reader_of(*ring);
  constexpr int kPackets = 20'000;
  std::thread writer([&ring] {
    for (int i = 0; i < kPackets; ++i) {
      add(*ring, Bytes(static_cast<std::size_t>(i) % 1'500, static_cast<std::byte>(i)));
    }
  });
  std::uint64_t read = 0;
  CapturedPacket packet;
  ByteSpan bytes;
  const auto drain = [&] {
    for (; reader.next(packet, bytes); ++read) {
      for (const std::byte one : bytes) ASSERT_EQ(one, bytes.front());
    }
  };
  while (reader.packets() < kPackets) drain();
  writer.join();
  drain();
  EXPECT_EQ(read + reader.dropped(), static_cast<std::uint64_t>(kPackets));
  EXPECT_GT(read, 0u);
  EXPECT_FALSE(reader.is_damaged());
}

TEST(CaptureRing, AReaderTrustsNoProgram) {
  const auto ring = CaptureRing::create(4096).value();
  CaptureReader reader = reader_of(*ring);
  // No remark has this number. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  add(*ring, Bytes(100), {.remark = static_cast<Remark>(200)});
  CapturedPacket packet;
  ByteSpan bytes;
  EXPECT_FALSE(reader.next(packet, bytes));
  EXPECT_TRUE(reader.is_damaged());

  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), 1 << 16), 0);
  EXPECT_EQ(CaptureReader::open(std::move(unsealed)).error().code, EPROTO);
}

/// Returns a SEND of four bytes with its ICRC.
Bytes packet_with_icrc(const wire::IpFlow& flow, std::uint16_t identification) {
  Bytes bytes(wire::Bth::kSize + 4 + wire::kIcrcBytes, std::byte{0x55});
  wire::encode_headers(
      {.bth = {.opcode = wire::opcode_of(wire::Service::rc, wire::Verb::send, wire::Position::only),
               .dest_qp = Qpn(2)}},
      bytes);
  const wire::IcrcSeed seed(flow);
  wire::store_icrc(
      seed.compute(ByteSpan(bytes).first(bytes.size() - wire::kIcrcBytes), identification),
      MutableByteSpan(bytes).last<wire::kIcrcBytes>());
  return bytes;
}

/// Returns the first packet's block of a file.
std::string packet_hex(CaptureFile& file) {
  const std::string all = wire::to_hex(file.bytes());
  return all.substr(all.find("06000000"));
}

TEST(CaptureFile, AReceivedPacketGetsTheIdentificationThatItsIcrcKnows) {
  const auto a = *SocketAddress::parse("127.0.0.2", 50'000);
  const auto b = *SocketAddress::parse("127.0.0.3", kRocePort);
  const wire::IpFlow flow = wire::flow_of(a, b);
  const Bytes bytes = packet_with_icrc(flow, 0x0123);
  CaptureFile file("a", "test");
  file.add({.flow = flow, .direction = Direction::receive}, bytes);
  const std::string block = packet_hex(file);
  // IPv4, 48 bytes long, identification 0x0123, DF, TTL 64, UDP.
  EXPECT_NE(block.find("45000030012340004011"), std::string::npos) << block;
  EXPECT_NE(block.find("02000400"
                       "01000000"),
            std::string::npos)
      << block;  // Inbound, no error.
}

TEST(CaptureFile, AWrongIcrcIsMarkedAndAFaultIsCommented) {
  const wire::IpFlow flow =
      wire::flow_of(*SocketAddress::parse("::1", 50'000), *SocketAddress::parse("::1", kRocePort));
  Bytes bytes = packet_with_icrc(flow, 0);
  bytes[13] ^= std::byte{1};
  CaptureFile file("a", "test");
  file.add({.flow = flow, .direction = Direction::send, .remark = Remark::corrupted}, bytes);
  const std::string block = packet_hex(file);
  EXPECT_NE(block.find("02000400"
                       "02000001"),
            std::string::npos)
      << block;  // Outbound, CRC error.
  EXPECT_NE(block.find(wire::to_hex(std::as_bytes(std::span("fault: corrupted", 16)))),
            std::string::npos);
}

}  // namespace
}  // namespace verbatim::link
