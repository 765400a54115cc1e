#include "wire/printer.h"

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

std::string described(const char* hex) {
  const auto bytes = from_hex(hex);
  return describe(*decode_packet(bytes));
}

TEST(Printer, OpcodeNames) {
  EXPECT_EQ(opcode_name(Opcode{0x03}), "RC SEND_LAST_WITH_IMMEDIATE");
  EXPECT_EQ(opcode_name(Opcode{0x17}), "RC SEND_ONLY_WITH_INVALIDATE");
  EXPECT_EQ(opcode_name(Opcode{0x0c}), "RC RDMA_READ_REQUEST");
  EXPECT_EQ(opcode_name(Opcode{0x2a}), "UC RDMA_WRITE_ONLY");
  EXPECT_EQ(opcode_name(Opcode{0xa4}), "XRC SEND_ONLY");
  EXPECT_EQ(opcode_name(Opcode{0x15}), "opcode 0x15");
}

TEST(Printer, Lines) {
  EXPECT_EQ(described("0470ffff0000001180abcdef41000000"),
            "RC SEND_ONLY qpn 0x11 psn 0xabcdef pkey 0xffff ack-request payload 1 pad 3");
  EXPECT_EQ(described("65c0ffff0000001100000001 80010000 00000012 00000007"),
            "UD SEND_ONLY_WITH_IMMEDIATE qpn 0x11 psn 0x1 pkey 0xffff solicited qkey 0x80010000 "
            "source qpn 0x12 immediate 0x7 payload 0 pad 0");
  EXPECT_EQ(described("a400ffff0000001100000001 00000042"),
            "XRC SEND_ONLY qpn 0x11 psn 0x1 pkey 0xffff srq 0x42 payload 0 pad 0");
  EXPECT_EQ(described("0c40ffff0000001180000002 0000000000001000 00000203 00010000"),
            "RC RDMA_READ_REQUEST qpn 0x11 psn 0x2 pkey 0xffff ack-request address 0x1000 rkey "
            "0x203 length 65536 payload 0 pad 0");
}

TEST(Printer, Syndromes) {
  EXPECT_NE(described("1140ffff0000001100000002 1f000003").find("ack credits 31 msn 3"),
            std::string::npos);
  EXPECT_NE(described("1140ffff0000001100000002 2c000003").find("RNR NAK timer 12 (640 us)"),
            std::string::npos);
  EXPECT_NE(described("1140ffff0000001100000002 62000003").find("NAK remote access error"),
            std::string::npos);
}

}  // namespace
}  // namespace verbatim::wire
