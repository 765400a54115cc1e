#include <cstdint>

#include "adapter/adapter_test_util.h"
#include "link/decorators/decorator.h"

/// All that a newcomer needs to add a new kind of fault between programs: one class, and one line
/// that decorates a node's link.
namespace verbatim::adapter {
namespace {

/// Loses the packets of every tenth call.
class DropsEveryTenth final : public link::Decorator {
 public:
  using Decorator::Decorator;
  int send(const link::Packets& packets) noexcept override {
    return ++calls_ % 10 == 0 ? 0 : Decorator::send(packets);
  }
  std::uint32_t calls() const { return calls_; }

 private:
  std::atomic<std::uint32_t> calls_{0};
};

TEST_F(AdapterPair, WhatALinkLosesArrivesNevertheless) {
  DropsEveryTenth there(a.adapter->port().links(1).base()), back(b.adapter->port().links(1).base());
  a.adapter->port().links(1).set_top(there);
  b.adapter->port().links(1).set_top(back);

  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.timeout = right.timeout = 8;  // A millisecond.
  left.connect(right);
  right.connect(left);
  constexpr std::size_t kMessages = 200;
  constexpr std::uint32_t kLength = 5000;
  fill(left, 0, kMessages * kLength, 3);
  std::size_t completed = 0;
  const auto complete_one = [&] {
    ASSERT_EQ(Status::success, left.next().status) << completed;
    ++completed;
  };
  for (std::size_t i = 0; i < kMessages; ++i) {
    while (left.posted - completed == 16) ASSERT_NO_FATAL_FAILURE(complete_one());
    const std::size_t at = i * kLength;
    ASSERT_EQ(0, left.post(Operation::write, left.segment(at, kLength), &right, at));
  }
  while (completed < kMessages) ASSERT_NO_FATAL_FAILURE(complete_one());
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kMessages * kLength,
                         right.memory.begin()));
  EXPECT_GT(there.calls(), 10u);
  EXPECT_GT(back.calls(), 10u);

  a.adapter->port().links(1).set_top(a.adapter->port().links(1).base());
  b.adapter->port().links(1).set_top(b.adapter->port().links(1).base());
}

}  // namespace
}  // namespace verbatim::adapter
