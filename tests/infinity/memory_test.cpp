#include <algorithm>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "test_util.h"

namespace infinity {
namespace {

using namespace kit;

TEST(Memory, BuffersAreZeroedAndAligned) {
  Context context;
  Buffer buffer(&context, 5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.getData()) % core::Configuration::PAGE_SIZE, 0u);
  EXPECT_EQ(text(buffer, 5000), std::string(5000, '\0'));
  EXPECT_EQ(buffer.getSizeInBytes(), 5000u);
  EXPECT_EQ(buffer.getAddress(), reinterpret_cast<uintptr_t>(buffer.getData()));
  EXPECT_EQ(buffer.getAddressWithOffset(7), buffer.getAddress() + 7);
  EXPECT_EQ(buffer.getMemoryRegionType(), memory::BUFFER);
  EXPECT_EQ(buffer.getRemainingSizeInBytes(4000), 1000u);
  EXPECT_EQ(buffer.getRemainingSizeInBytes(6000), 0u);
}

TEST(Memory, PartsOfRegisteredMemory) {
  Context context;
  RegisteredMemory memory(&context, 8192);
  Buffer part(&context, &memory, 4096, 100);
  EXPECT_EQ(part.getData(), static_cast<char*>(memory.getData()) + 4096);
  EXPECT_EQ(part.getLocalKey(), memory.getRegion()->lkey);
  EXPECT_EQ(part.getRemoteKey(), memory.getRegion()->rkey);
  EXPECT_EQ(error_of([&] { Buffer(&context, &memory, 8000, 193); }),
            "infinity: Buffer: 193 bytes from 8000 on are not within the registered memory's 8192");
  EXPECT_NE(error_of([&] { part.resize(10); }).find("part of a RegisteredMemory"),
            std::string::npos);

  std::vector<char> own(4096);
  RegisteredMemory of_the_program(&context, own.data(), own.size());
  EXPECT_EQ(of_the_program.getData(), own.data());
  EXPECT_EQ(of_the_program.getSizeInBytes(), own.size());
}

TEST(Memory, TokensSayWhatTheyName) {
  Context context;
  Buffer buffer(&context, 4096);
  const std::unique_ptr<RegionToken> whole(buffer.createRegionToken());
  EXPECT_EQ(whole->getMemoryRegion(), &buffer);
  EXPECT_EQ(whole->getSizeInBytes(), 4096u);
  EXPECT_EQ(whole->getLocalKey(), buffer.getLocalKey());
  EXPECT_EQ(whole->getRemoteKey(), buffer.getRemoteKey());
  const std::unique_ptr<RegionToken> rest(buffer.createRegionToken(96));
  EXPECT_EQ(rest->getSizeInBytes(), 4000u);
  EXPECT_EQ(rest->getAddress(), buffer.getAddressWithOffset(96));
  const std::unique_ptr<RegionToken> part(buffer.createRegionToken(96, 4));
  EXPECT_EQ(part->getSizeInBytes(), 4u);
  EXPECT_EQ(part->getAddressWithOffset(2), buffer.getAddressWithOffset(98));
  EXPECT_EQ(part->getRemainingSizeInBytes(5), 0u);
  EXPECT_EQ(error_of([&] { buffer.createRegionToken(4096, 1); }),
            "infinity: Region::createRegionToken: 1 bytes from 4096 on are not within the region's "
            "4096");
  const RegionToken copy(*part);
  EXPECT_EQ(std::memcmp(&copy, part.get(), 40), 0);
  EXPECT_EQ(RegionToken().getMemoryRegionType(), memory::UNKNOWN);
}

TEST(Memory, ResizeGrowsShrinksAndMoves) {
  Connected pair;
  Buffer own(&pair.context_b, 4096);
  put(own, "content");
  own.resize(100);
  EXPECT_EQ(own.getSizeInBytes(), 100u);
  own.resize(3 * 4096);
  EXPECT_EQ(text(own, 7), "content");
  std::unique_ptr<RegionToken> token(own.createRegionToken());
  pair.a->write(&pair.here, 0, token.get(), 12284, 4, queues::OperationFlags(), &pair.request);
  EXPECT_TRUE(done(pair.request));

  // Into the program's memory, which the buffer then frees, because it allocated the earlier
  // memory.
  void* const before = own.getData();
  own.resize(4096, std::calloc(1, 4096));
  EXPECT_EQ(text(own, 7), "content");
  std::free(before);

  std::vector<char> first(64);
  std::vector<char> second(64);
  Buffer of_the_program(&pair.context_b, first.data(), 64);
  put(of_the_program, "abc");
  of_the_program.resize(32, second.data());
  EXPECT_EQ(std::string(second.data(), 3), "abc");
  EXPECT_EQ(of_the_program.getData(), second.data());
}

TEST(Memory, WhatCannotBeRegisteredIsToldInWords) {
  Context context;
  EXPECT_NE(error_of([&] {
              Buffer(&context, reinterpret_cast<void*>(4096), 4096);
            }).find("cannot be registered"),
            std::string::npos);
#ifndef __SANITIZE_ADDRESS__  // Its allocator would end the program.
  EXPECT_NE(error_of([&] { Buffer(&context, uint64_t{1} << 60); }).find("cannot be allocated"),
            std::string::npos);
#endif
}

TEST(Configuration, HasInfinitysConstants) {
  using core::Configuration;
  EXPECT_EQ(Configuration::SEND_COMPLETION_QUEUE_LENGTH, 16351u);
  EXPECT_EQ(Configuration::RECV_COMPLETION_QUEUE_LENGTH, 16351u);
  EXPECT_EQ(Configuration::SHARED_RECV_QUEUE_LENGTH, 16351u);
  EXPECT_EQ(Configuration::MAX_NUMBER_OF_OUTSTANDING_REQUESTS, 16351u);
  EXPECT_EQ(Configuration::MAX_NUMBER_OF_SGE_ELEMENTS, 1u);
  EXPECT_EQ(std::min(Configuration::MAX_CONNECTION_USER_DATA_SIZE, 5000u), 1024u);
  EXPECT_STREQ(Configuration::DEFAULT_IB_DEVICE, "ib0");
}

TEST(Address, OfInterfacesAndOfTheDevice) {
  char* const address = utils::Address::getIpAddressOfInterface("lo");
  EXPECT_STREQ(address, "127.0.0.1");
  std::free(address);
  EXPECT_EQ(utils::Address::getIpAddressAsUint32("1.2.3.4"), 0x01020304u);
  EXPECT_NE(error_of([] { utils::Address::getIpAddressAsUint32("1.2.3"); }), "");
  EXPECT_NE(
      error_of([] { utils::Address::getIpAddressOfInterface("none0"); }).find("no interface none0"),
      std::string::npos);
  char* const of_device = utils::Address::getIpAddressOfInterface("ib0");
  EXPECT_STREQ(of_device, own_address());
  std::free(of_device);
}

TEST(Context, SpeaksWhatTheTestIsFor) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(devices[0]->transport_type, is_iwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB);
  ibv_free_device_list(devices);
}

TEST(Context, AnIndexOrPortThatIsNotThere) {
  EXPECT_NE(error_of([] { Context context(7); }).find("there is no device 7"), std::string::npos);
  EXPECT_NE(error_of([] { Context context(0, 3); }).find("has ports 1 to 1, not 3"),
            std::string::npos);
}

}  // namespace
}  // namespace infinity
