#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/iwarp/ddp.h"
#include "wire/iwarp/mpa.h"
#include "wire/iwarp/mpa_markers.h"
#include "wire/iwarp/rdmap.h"

/// MPA, DDP and RDMAP: golden bytes from the drawings in their RFCs.
namespace verbatim::wire {
namespace {

template <typename Value>
std::string hex(const Value& value) {
  std::array<std::byte, Value::kSize> out;
  encode(value, out);
  return to_hex(out);
}

template <std::size_t Size>
std::array<std::byte, Size> bytes_of(std::string_view digits) {
  const auto bytes = from_hex(digits);
  std::array<std::byte, Size> out{};
  EXPECT_EQ(bytes.size(), Size);
  std::ranges::copy(bytes, out.begin());
  return out;
}

TEST(Ddp, GoldenBytes) {
  Ddp tagged{.last = true, .stag = 0x01020304, .offset = 0x1112131415161718};
  set_rdmap(tagged, RdmapOpcode::write);
  std::array<std::byte, Ddp::kTaggedSize> out;
  encode(tagged, out);
  EXPECT_EQ(to_hex(out), "c140010203041112131415161718");
  EXPECT_EQ(decode_ddp(out), tagged);

  Ddp untagged{.message_number = 0x0a0b0c0d, .message_offset = 0x21222324};
  set_rdmap(untagged, RdmapOpcode::send_solicited_with_invalidate, 0x31323334);
  std::array<std::byte, Ddp::kUntaggedSize> wide;
  encode(untagged, wide);
  EXPECT_EQ(to_hex(wide), "014631323334000000000a0b0c0d21222324");
  EXPECT_EQ(decode_ddp(wide), untagged);
}

TEST(Ddp, ShortOnesAndOtherVersionsAreRefused) {
  for (const char* digits :
       {"c140010203041112131415161718", "014631323334000000000a0b0c0d21222324"}) {
    auto bytes = from_hex(digits);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
      EXPECT_EQ(decode_ddp(cut).error(), WireError::too_short) << size;
    }
    bytes[0] ^= std::byte{3};
    EXPECT_EQ(decode_ddp(bytes).error(), WireError::ddp_version);
  }
}

TEST(Rdmap, OpcodeAndDdpHeaderMustAgree) {
  for (int number = 0; number < 16; ++number) {
    const auto opcode = static_cast<RdmapOpcode>(number);
    Ddp header;
    set_rdmap(header, opcode, 7);
    EXPECT_EQ(info(opcode).known, number <= 11) << number;
    if (!info(opcode).known) {
      EXPECT_EQ(rdmap_opcode(header).error(), WireError::unknown_opcode);
      continue;
    }
    EXPECT_EQ(rdmap_opcode(header), opcode);
    EXPECT_EQ(header.upper_word, info(opcode).invalidate ? 7u : 0u);
    Ddp other = header;
    other.tagged = !other.tagged;
    EXPECT_FALSE(rdmap_opcode(other)) << number;
    other = header;
    other.queue += 1;
    EXPECT_EQ(rdmap_opcode(other).has_value(), header.tagged) << number;
    other = header;
    other.upper_control ^= 0x80;
    EXPECT_EQ(rdmap_opcode(other).error(), WireError::rdmap_version);
  }
}

TEST(Rdmap, GoldenPayloads) {
  const RdmapReadRequest read{.sink_stag = 0x01020304,
                              .sink_offset = 0x1112131415161718,
                              .length = 0x21222324,
                              .source_stag = 0x31323334,
                              .source_offset = 0x4142434445464748};
  EXPECT_EQ(hex(read), "01020304111213141516171821222324313233344142434445464748");
  EXPECT_EQ(decode_read_request(bytes_of<28>(hex(read))), read);

  const RdmapAtomicRequest atomic{.operation = RdmapAtomicRequest::Operation::compare_and_swap,
                                  .identifier = 0x01020304,
                                  .stag = 0x11121314,
                                  .offset = 0x2122232425262728,
                                  .add_or_swap = 0x3132333435363738,
                                  .add_or_swap_mask = 0x4142434445464748,
                                  .compare = 0x5152535455565758,
                                  .compare_mask = 0x6162636465666768};
  EXPECT_EQ(hex(atomic),
            "0000000201020304111213142122232425262728"
            "3132333435363738414243444546474851525354555657586162636465666768");
  EXPECT_EQ(decode_atomic_request(bytes_of<52>(hex(atomic))), atomic);

  const RdmapAtomicResponse response{.identifier = 0x01020304, .original = 0x1112131415161718};
  EXPECT_EQ(hex(response), "010203041112131415161718");
  EXPECT_EQ(decode_atomic_response(bytes_of<12>(hex(response))), response);

  const RdmapTerminate terminate{.layer = RdmapTerminate::Layer::ddp,
                                 .type = 2,
                                 .code = 5,
                                 .has_segment_length = true,
                                 .has_ddp_header = true};
  EXPECT_EQ(hex(terminate), "1205c000");
  EXPECT_EQ(decode_terminate(bytes_of<4>(hex(terminate))), terminate);
  // As Linux's siw writes it.
  EXPECT_EQ(decode_terminate(bytes_of<4>("21050300")), terminate);
}

TEST(Mpa, GoldenFrames) {
  const MpaFrame request{
      .wants_crc = true, .is_enhanced = true, .revision = 2, .private_data_bytes = 4};
  EXPECT_EQ(hex(request), "4d504120494420526571204672616d6550020004");
  EXPECT_EQ(decode_mpa_frame(bytes_of<20>(hex(request))), request);
  const MpaFrame rejection{.is_reply = true, .wants_markers = true, .is_rejection = true};
  EXPECT_EQ(hex(rejection), "4d504120494420526570204672616d65a0010000");
  EXPECT_EQ(decode_mpa_frame(bytes_of<20>(hex(rejection))), rejection);
  const MpaEnhanced enhanced{.peer_to_peer = true,
                             .ready_by_read = true,
                             .inbound_reads = 0x102,
                             .outbound_reads = 0x3fff};
  EXPECT_EQ(hex(enhanced), "81027fff");
  EXPECT_EQ(decode_mpa_enhanced(bytes_of<4>(hex(enhanced))), enhanced);
}

TEST(Mpa, WrongFramesAreRefused) {
  const auto good = bytes_of<20>("4d504120494420526571204672616d6540010000");
  ASSERT_TRUE(decode_mpa_frame(good));
  for (std::size_t i = 0; i < 16; ++i) {
    auto frame = good;
    frame[i] ^= std::byte{0x20};
    EXPECT_EQ(decode_mpa_frame(frame).error(), WireError::mpa_key) << i;
  }
  for (const char* digits : {"4d504120494420526571204672616d6540030000",  // Revision 3.
                             "4d504120494420526571204672616d6540000000"}) {
    EXPECT_EQ(decode_mpa_frame(bytes_of<20>(digits)).error(), WireError::mpa_revision);
  }
  for (const char* digits : {"4d504120494420526571204672616d6540010201",  // 513 bytes.
                             "4d504120494420526571204672616d6550020003"}) {
    EXPECT_EQ(decode_mpa_frame(bytes_of<20>(digits)).error(), WireError::mpa_length);
  }
}

/// RFC 3720, appendix B.4.
TEST(Mpa, Crc32cOfTheRfc) {
  const auto crc = [](std::vector<std::byte> bytes) {
    Crc32c value;
    value.update(ByteSpan(bytes).first(5));
    value.update(ByteSpan(bytes).subspan(5));
    return value.value();
  };
  EXPECT_EQ(crc(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(crc(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
}

TEST(Mpa, AnFpduIsPaddedAndItsDamageIsFound) {
  for (std::size_t size = 1; size < 40; ++size) {
    std::vector<std::byte> fpdu(fpdu_bytes(size), std::byte{0xee});
    EXPECT_EQ(fpdu.size() % 4, 0u);
    for (std::size_t i = 0; i < size; ++i) fpdu[2 + i] = static_cast<std::byte>(i * 5);
    enclose_fpdu(fpdu, size);
    set_crc(fpdu);
    EXPECT_EQ(next_fpdu_bytes(fpdu), fpdu.size());
    EXPECT_EQ(segment_of(fpdu).size(), size);
    EXPECT_EQ(segment_of(fpdu).data(), fpdu.data() + 2);
    EXPECT_TRUE(has_right_crc(fpdu));
    for (std::size_t i = 0; i < fpdu.size(); ++i) {
      auto damaged = fpdu;
      damaged[i] ^= std::byte{0x10};
      EXPECT_FALSE(has_right_crc(damaged)) << size << " " << i;
    }
  }
  EXPECT_FALSE(next_fpdu_bytes({}));
}

// RFC 5044, section 4.3: the first marker is before the first FPDU and points to it; the next one
// is 512 bytes later, 508 bytes into that FPDU.
TEST(Mpa, MarkersStandAtEvery512thByteOfTheStream) {
  const std::size_t bytes = fpdu_bytes(1000);
  ASSERT_EQ(marked_bytes(0, bytes), bytes + 8);
  std::vector<std::byte> marked(marked_bytes(0, bytes), std::byte{0xee});
  insert_markers(marked, 0, bytes);
  EXPECT_EQ(load_be<std::uint32_t>(&marked[0]), 0u);
  EXPECT_EQ(load_be<std::uint32_t>(&marked[512]), 508u);
  EXPECT_EQ(marked[4], std::byte{0xee});
  EXPECT_EQ(marked[516], std::byte{0xee});
}

TEST(Mpa, AMarkerBetweenTwoFpdusBelongsToTheSecond) {
  EXPECT_EQ(marked_bytes(4, 508), 508u);
  EXPECT_EQ(marked_bytes(4, 512), 516u);
  EXPECT_EQ(marked_bytes(512, 8), 12u);
}

TEST(Mpa, MarkersComeOutAsTheyWentIn) {
  for (std::uint64_t position = 0; position <= 1024; position += 4) {
    for (const std::size_t size : {8u, 40u, 504u, 508u, 512u, 1016u, 1500u, 65'544u}) {
      std::vector<std::byte> fpdu(size);
      for (std::size_t i = 0; i < size; ++i) fpdu[i] = static_cast<std::byte>(i * 7);
      auto marked = fpdu;
      marked.resize(marked_bytes(position, size));
      insert_markers(marked, position, size);
      ASSERT_TRUE(remove_markers(marked, position)) << position << " " << size;
      marked.resize(size);
      ASSERT_EQ(marked, fpdu) << position << " " << size;
    }
  }
}

TEST(Mpa, AMarkerThatPointsElsewhereIsFound) {
  std::vector<std::byte> marked(marked_bytes(256, 800));
  insert_markers(marked, 256, 800);
  marked[256 + 3] ^= std::byte{4};
  EXPECT_FALSE(remove_markers(marked, 256));
}

}  // namespace
}  // namespace verbatim::wire
