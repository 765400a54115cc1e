#include <gtest/gtest.h>

#include "test_util.h"

namespace infinity {
namespace {

using namespace kit;

OperationFlags signaled() {
  OperationFlags flags;
  flags.signaled = true;
  return flags;
}

/// Waits until the written bytes are at the peer. Over iWARP a WRITE completes when it is sent; a
/// READ completes after it.
bool placed(Connected& pair) {
  if (!done(pair.request)) return false;
  if (!is_iwarp()) return true;
  Buffer sink(&pair.context_a, 8);
  RequestToken behind(&pair.context_a);
  pair.a->read(&sink, pair.token.get(), 1, &behind);
  return done(behind);
}

TEST(Operations, FlagsAreTheVerbs) {
  OperationFlags flags;
  EXPECT_EQ(flags.ibvFlags(), 0);
  flags.fenced = flags.signaled = flags.inlined = true;
  EXPECT_EQ(flags.ibvFlags(), IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

TEST(Operations, EachOverloadOfWrite) {
  Connected pair;
  put(pair.here, "whole");
  pair.a->write(&pair.here, pair.token.get(), &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(text(pair.there, 5), "whole");
  EXPECT_EQ(pair.request.getRegion(), &pair.here);

  put(pair.here, "short");
  pair.a->write(&pair.here, pair.token.get(), 3, &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(text(pair.there, 5), "shole");

  pair.a->write(&pair.here, 1, pair.token.get(), 100, 4, OperationFlags(), &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(text(pair.there, 4, 100), "hort");

  // Without a token: the completion of a later request completes them.
  pair.a->write(&pair.here, pair.token.get());
  pair.a->write(&pair.here, pair.token.get(), 8);
  pair.a->write(&pair.here, 0, pair.token.get(), 0, 8, signaled());
  pair.a->write(&pair.here, pair.token.get(), 1, &pair.request);
  ASSERT_TRUE(placed(pair));
}

TEST(Operations, EachOverloadOfRead) {
  Connected pair;
  put(pair.there, "remote");
  pair.a->read(&pair.here, pair.token.get(), &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(text(pair.here, 6), "remote");

  put(pair.there, "123456");
  pair.a->read(&pair.here, pair.token.get(), 3, &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(text(pair.here, 6), "123ote");

  OperationFlags fenced;
  fenced.fenced = true;
  pair.a->read(&pair.here, 50, pair.token.get(), 2, 4, fenced, &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(text(pair.here, 4, 50), "3456");

  pair.a->read(&pair.here, pair.token.get());
  pair.a->read(&pair.here, pair.token.get(), 8);
  pair.a->read(&pair.here, 0, pair.token.get(), 0, 8, OperationFlags());
  pair.a->read(&pair.here, pair.token.get(), 1, &pair.request);
  ASSERT_TRUE(done(pair.request));
}

TEST(Operations, EachOverloadOfSend) {
  Connected pair;
  Buffer first(&pair.context_b, 100);
  Buffer second(&pair.context_b, 100);
  Buffer third(&pair.context_b, Connected::kBytes);
  for (Buffer* const buffer : {&first, &second, &third}) pair.context_b.postReceiveBuffer(buffer);
  put(pair.here, "message");
  pair.a->send(&pair.here, 7, &pair.request);
  ASSERT_TRUE(done(pair.request));
  pair.a->send(&pair.here, 3, 4, OperationFlags(), &pair.request);
  ASSERT_TRUE(done(pair.request));
  pair.a->send(&pair.here, &pair.request);
  ASSERT_TRUE(done(pair.request));

  receive_element_t message = next_message(pair.context_b);
  EXPECT_EQ(message.buffer, &first);
  EXPECT_EQ(message.bytesWritten, 7u);
  EXPECT_EQ(message.queuePair, pair.b.get());
  EXPECT_FALSE(message.immediateValueValid);
  EXPECT_EQ(text(first, 7), "message");

  message = next_message(pair.context_b);
  EXPECT_EQ(message.buffer, &second);
  EXPECT_EQ(text(second, message.bytesWritten), "sage");

  // The other form of receive, which needs no queue pair.
  Buffer* buffer = nullptr;
  uint32_t bytes = 0;
  uint32_t immediate = 1;
  bool has_immediate = true;
  while (!pair.context_b.receive(&buffer, &bytes, &immediate, &has_immediate)) {
  }
  EXPECT_EQ(buffer, &third);
  EXPECT_EQ(bytes, Connected::kBytes);
  EXPECT_FALSE(has_immediate);
  EXPECT_EQ(immediate, 0u);
  EXPECT_FALSE(pair.context_b.receive(&message));
}

TEST(Operations, InlinedBytesMayChangeAtOnce) {
  Connected pair;
  OperationFlags inlined;
  inlined.inlined = true;
  put(pair.here, "before");
  pair.a->write(&pair.here, 0, pair.token.get(), 0, 6, inlined, &pair.request);
  put(pair.here, "after ");
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(text(pair.there, 6), "before");
  EXPECT_NE(error_of([&] {
              pair.a->write(&pair.here, 0, pair.token.get(), 0, 8192, inlined, &pair.request);
            }).find("8192 bytes inlined"),
            std::string::npos);
}

TEST(Operations, SendWithImmediate) {
  Connected pair;
  Buffer place(&pair.context_b, 100);
  pair.context_b.postReceiveBuffer(&place);
  put(pair.here, "immediate");
  const auto send = [&] {
    pair.a->sendWithImmediate(&pair.here, 2, 7, 0x01020304, OperationFlags(), &pair.request);
  };
  if (is_iwarp()) {
    EXPECT_NE(error_of(send).find("writeWithImmediate has"), std::string::npos);
    return;
  }
  send();
  EXPECT_TRUE(pair.request.hasImmediateValue());
  EXPECT_EQ(pair.request.getImmediateValue(), 0x01020304u);
  ASSERT_TRUE(done(pair.request));
  const receive_element_t message = next_message(pair.context_b);
  EXPECT_EQ(message.buffer, &place);
  EXPECT_TRUE(message.immediateValueValid);
  EXPECT_EQ(message.immediateValue, 0x01020304u);
  EXPECT_EQ(text(place, message.bytesWritten), "mediate");
}

TEST(Operations, WriteWithImmediateTakesNoBuffer) {
  Connected pair;
  Buffer place(&pair.context_b, 100);
  pair.context_b.postReceiveBuffer(&place);
  put(pair.here, "written");
  for (uint32_t value = 7; value < 10; ++value) {
    pair.a->writeWithImmediate(&pair.here, 0, pair.token.get(), 16, 7, value, OperationFlags(),
                               &pair.request);
    ASSERT_TRUE(done(pair.request));
    const receive_element_t message = next_message(pair.context_b);
    EXPECT_EQ(message.buffer, nullptr);  // Its buffer is posted again.
    EXPECT_EQ(message.immediateValue, value);
    EXPECT_TRUE(message.immediateValueValid);
    EXPECT_EQ(message.queuePair, pair.b.get());
  }
  EXPECT_EQ(text(pair.there, 7, 16), "written");
}

TEST(Operations, SeveralBuffersIntoOnePlace) {
  Connected pair;
  Buffer second(&pair.context_a, 16);
  put(pair.here, "one-two");
  put(second, "three");
  Buffer* buffers[] = {&pair.here, &second, &pair.here};
  uint32_t sizes[] = {3, 5, 4};
  uint64_t offsets[] = {0, 0, 3};
  pair.a->multiWrite(buffers, sizes, offsets, 3, pair.token.get(), 10, OperationFlags(),
                     &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(pair.request.getRegion(), &pair.here);
  EXPECT_EQ(text(pair.there, 12, 10), "onethree-two");

  // Whole buffers, from their starts.
  Buffer* whole[] = {&second};
  pair.a->multiWrite(whole, nullptr, nullptr, 1, pair.token.get(), 100, OperationFlags(),
                     &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(text(pair.there, 5, 100), "three");

  Buffer place(&pair.context_b, 16);
  pair.context_b.postReceiveBuffer(&place);
  pair.a->multiWriteWithImmediate(buffers, sizes, nullptr, 2, pair.token.get(), 200, 99,
                                  OperationFlags(), &pair.request);
  ASSERT_TRUE(placed(pair));
  const receive_element_t message = next_message(pair.context_b);
  EXPECT_EQ(message.immediateValue, 99u);
  EXPECT_EQ(text(pair.there, 8, 200), "onethree");
}

TEST(Operations, Atomics) {
  Connected pair;
  Atomic cell(&pair.context_b);
  Atomic before(&pair.context_a);
  cell.setValueNonAtomic(40);
  const std::unique_ptr<RegionToken> token(cell.createRegionToken());
  EXPECT_EQ(token->getMemoryRegionType(), memory::ATOMIC);

  pair.a->fetchAndAdd(token.get(), &before, 2, OperationFlags(), &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(pair.request.getRegion(), &before);
  EXPECT_EQ(before.getValue(), 40u);
  EXPECT_EQ(cell.getValue(), 42u);

  pair.a->compareAndSwap(token.get(), &before, 41, 1, OperationFlags(), &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(before.getValue(), 42u);
  EXPECT_EQ(cell.getValue(), 42u);

  // Into the context's own Atomic.
  pair.a->compareAndSwap(token.get(), 42, 7, &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(pair.context_a.defaultAtomic->getValue(), 42u);
  pair.a->fetchAndAdd(token.get(), 1, &pair.request);
  ASSERT_TRUE(done(pair.request));
  EXPECT_EQ(pair.context_a.defaultAtomic->getValue(), 7u);
  EXPECT_EQ(cell.getValue(), 8u);

  EXPECT_NE(error_of([&] {
              pair.a->fetchAndAdd(pair.token.get(), 1, &pair.request);
            }).find("the token names a Buffer"),
            std::string::npos);
}

TEST(Operations, WhatIsOutOfBoundsIsRefusedInWords) {
  Connected pair;
  const std::unique_ptr<RegionToken> small(pair.there.createRegionToken(0, 16));
  EXPECT_EQ(error_of([&] { pair.a->write(&pair.here, small.get(), 17); }),
            "infinity: QueuePair::write: 17 bytes from 0 on are not within the 16 that the region "
            "token names");
  EXPECT_EQ(error_of([&] { pair.a->read(&pair.here, small.get()); }),
            "infinity: QueuePair::read: 8192 bytes from 0 on are not within the 16 that the region "
            "token names");
  EXPECT_EQ(error_of([&] { pair.a->send(&pair.here, 8000, 193, OperationFlags()); }),
            "infinity: QueuePair::send: 193 bytes from 8000 on are not within the buffer's 8192");
  Buffer* buffers[] = {&pair.here, &pair.here, &pair.here, &pair.here, &pair.here};
  EXPECT_EQ(error_of([&] {
              pair.a->multiWrite(buffers, nullptr, nullptr, 5, pair.token.get(), 0,
                                 OperationFlags());
            }).find("infinity: QueuePair::multiWrite: 5 elements; this device takes 1 to "),
            0u);
  // The queue pair still works.
  pair.a->write(&pair.here, small.get(), 16, &pair.request);
  EXPECT_TRUE(done(pair.request));
}

TEST(Operations, AWrongTokenFailsTheRequestAndThoseBehindIt) {
  Connected pair;
  RegionToken wrong(nullptr, memory::BUFFER, 8192, pair.token->getAddress(), 0,
                    pair.token->getRemoteKey() ^ 1);
  RequestToken second(&pair.context_a);
  testing::internal::CaptureStderr();
  pair.a->read(&pair.here, &wrong, &pair.request);
  EXPECT_FALSE(done(pair.request));
  pair.a->write(&pair.here, pair.token.get(), &second);
  EXPECT_FALSE(done(second));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("infinity: a request of queue pair "), std::string::npos) << told;
  EXPECT_EQ(told.find("infinity: "), told.rfind("infinity: ")) << told;  // Only once.
}

TEST(Operations, MoreThanTheSendQueueHoldsWaitsForRoom) {
  Connected pair;
  const uint32_t many = 2 * core::Configuration::SEND_COMPLETION_QUEUE_LENGTH + 100;
  for (uint32_t i = 1; i <= many; ++i) {
    *static_cast<uint32_t*>(pair.here.getData()) = i;
    pair.a->write(&pair.here, pair.token.get(), 4);
  }
  pair.a->write(&pair.here, pair.token.get(), 4, &pair.request);
  ASSERT_TRUE(placed(pair));
  EXPECT_EQ(*static_cast<uint32_t*>(pair.there.getData()), many);
}

TEST(RequestToken, HoldsWhatTheProgramPutsThere) {
  Context context;
  RequestToken& token = *context.defaultRequestToken;
  EXPECT_FALSE(token.checkIfCompleted());
  EXPECT_FALSE(token.hasUserData());
  int data = 1;
  token.setUserData(&data, sizeof data);
  token.setImmediateValue(5);
  token.setCompleted(true);
  EXPECT_TRUE(token.hasUserData());
  EXPECT_EQ(token.getUserData(), &data);
  EXPECT_EQ(token.getUserDataSize(), sizeof data);
  EXPECT_EQ(token.getImmediateValue(), 5u);
  EXPECT_TRUE(token.checkIfCompleted());
  EXPECT_TRUE(token.wasSuccessful());
  token.reset();
  EXPECT_FALSE(token.checkIfCompleted());
  EXPECT_FALSE(token.hasImmediateValue());
  EXPECT_EQ(token.getRegion(), nullptr);
}

}  // namespace
}  // namespace infinity
