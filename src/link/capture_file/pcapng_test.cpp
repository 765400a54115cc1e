#include "link/capture_file/pcapng.h"

#include <bit>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::link::pcapng {
namespace {

static_assert(std::endian::native == std::endian::little, "the digits below are little-endian");

std::string hex(const std::vector<std::byte>& bytes) { return wire::to_hex(bytes); }
std::string digits(std::string_view text) { return wire::to_hex(wire::from_hex(text)); }

TEST(Pcapng, SectionNamesTheApplication) {
  std::vector<std::byte> out;
  append_section(out, "verb");
  EXPECT_EQ(hex(out), digits("0a0d0d0a 28000000 4d3c2b1a 0100 0000 ffffffffffffffff"
                             "0400 0400 76657262 00000000 28000000"));
}

TEST(Pcapng, InterfaceHasLinkTypeNameAndNanoseconds) {
  std::vector<std::byte> out;
  append_interface(out, {.type = LinkType::raw_ip, .name = "a"});
  EXPECT_EQ(hex(out), digits("01000000 28000000 6500 0000 00000400"
                             "0200 0100 61000000 0900 0100 09000000 00000000 28000000"));
}

TEST(Pcapng, PacketHasTimeDirectionAndComment) {
  const auto headers = wire::from_hex("4500");
  const auto bytes = wire::from_hex("0102 03");
  std::vector<std::byte> out;
  append_packet(out, {.interface = 1,
                      .time = 0x0102030405060708,
                      .direction = Direction::send,
                      .headers = headers,
                      .bytes = bytes,
                      .comment = "lost!"});
  EXPECT_EQ(hex(out), digits("06000000 40000000 01000000 04030201 08070605 05000000 05000000"
                             "4500 0102 03 000000"
                             "0100 0500 6c6f737421 000000 0200 0400 02000000 00000000 40000000"));
}

TEST(Pcapng, PacketThatCameWithAWrongCrcSaysSo) {
  std::vector<std::byte> out;
  append_packet(out, {.direction = Direction::receive, .has_wrong_crc = true});
  EXPECT_EQ(hex(out), digits("06000000 2c000000 00000000 00000000 00000000 00000000 00000000"
                             "0200 0400 01000001 00000000 2c000000"));
}

TEST(Pcapng, StatisticsTellWhatWasDropped) {
  std::vector<std::byte> out;
  append_statistics(out, {.interface = 1, .time = 2, .received = 300, .dropped = 4});
  EXPECT_EQ(hex(out), digits("05000000 34000000 01000000 00000000 02000000"
                             "0400 0800 2c01000000000000 0500 0800 0400000000000000"
                             "00000000 34000000"));
}

}  // namespace
}  // namespace verbatim::link::pcapng
