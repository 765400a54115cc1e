#include "wire/ib/opcode.h"

#include <gtest/gtest.h>

namespace verbatim::wire {
namespace {

TEST(Opcode, Table38_Samples) {
  EXPECT_EQ(opcode_of(Service::rc, Verb::send, Position::first), Opcode{0x00});
  EXPECT_EQ(opcode_of(Service::rc, Verb::write, Position::only, true), Opcode{0x0b});
  EXPECT_EQ(opcode_of(Service::rc, Verb::read_request, Position::only), Opcode{0x0c});
  EXPECT_EQ(opcode_of(Service::rc, Verb::acknowledge, Position::only), Opcode{0x11});
  EXPECT_EQ(opcode_of(Service::rc, Verb::fetch_add, Position::only), Opcode{0x14});
  EXPECT_EQ(opcode_of(Service::rc, Verb::send, Position::only, false, true), Opcode{0x17});
  EXPECT_EQ(opcode_of(Service::rc, Verb::flush, Position::only), Opcode{0x1c});
  EXPECT_EQ(opcode_of(Service::rc, Verb::atomic_write, Position::only), Opcode{0x1d});
  EXPECT_EQ(opcode_of(Service::uc, Verb::send, Position::only), Opcode{0x24});
  EXPECT_EQ(opcode_of(Service::ud, Verb::send, Position::only), Opcode{0x64});
  EXPECT_EQ(opcode_of(Service::ud, Verb::send, Position::only, true), Opcode{0x65});
}

TEST(Opcode, EveryRowIsFoundByItsProperties) {
  for (unsigned i = 0; i < 256; ++i) {
    const OpcodeInfo& row = kOpcodes[i];
    if (!row.known) continue;
    EXPECT_EQ(opcode_of(row.service, row.verb, row.position, row.has(kImmediate), row.has(kIeth)),
              static_cast<Opcode>(i));
  }
}

TEST(Opcode, XrcIsRcWithAHeaderInEveryRequest) {
  for (unsigned low = 0; low < 32; ++low) {
    const OpcodeInfo& rc = kOpcodes[low];
    const OpcodeInfo& xrc = kOpcodes[0xa0 | low];
    ASSERT_EQ(xrc.known, rc.known) << low;
    if (!rc.known) continue;
    EXPECT_EQ(xrc.headers, rc.headers | (rc.is_request ? kXrcEth : 0)) << low;
    EXPECT_EQ(in_service(static_cast<Opcode>(low), Service::xrc),
              opcode_of(Service::xrc, rc.verb, rc.position, rc.has(kImmediate), rc.has(kIeth)));
  }
}

TEST(Opcode, WhatTheServiceLacksIsNotInTheTable) {
  EXPECT_FALSE(kOpcodes[0x2c].known) << "UC has no READ";
  EXPECT_FALSE(kOpcodes[0x37].known) << "UC has no SEND with invalidate";
  EXPECT_FALSE(kOpcodes[0x3c].known) << "UC has no FLUSH";
  EXPECT_FALSE(kOpcodes[0x6a].known) << "UD has no WRITE";
  EXPECT_FALSE(kOpcodes[0x15].known) << "reserved";
  EXPECT_FALSE(info(opcode_of(Service::ud, Verb::write, Position::only)).known);
}

TEST(Opcode, ResponsesAreNotRequests) {
  for (unsigned i = 0; i < 256; ++i) {
    if (!kOpcodes[i].known) continue;
    const unsigned low = i & 0x1f;
    EXPECT_EQ(kOpcodes[i].is_request, low < 0x0d || low > 0x12) << i;
  }
}

TEST(Opcode, DatagramsHaveADethOfTheirOwn) {
  for (unsigned i = 0; i < 256; ++i) {
    if (!kOpcodes[i].known) continue;
    EXPECT_EQ(kOpcodes[i].has(kDeth), kOpcodes[i].service == Service::ud) << i;
  }
}

}  // namespace
}  // namespace verbatim::wire
