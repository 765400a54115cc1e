#include "fabric/data/walk/arbiter.h"

#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

struct Entry {
  unsigned lane;
  unsigned weight;
};

/// An output port with tables of its own.
class OutputPort {
 public:
  void set_high(const std::vector<Entry>& entries) { set(0, entries); }
  void set_low(const std::vector<Entry>& entries) { set(1, entries); }
  void set_limit(std::uint8_t limit) { port_->high_limit = limit; }
  unsigned send(std::uint32_t ready, std::uint32_t blocks = 1) {
    Arbiter arbiter(*link_, *port_);
    const unsigned lane = arbiter.choose(ready);
    arbiter.charge(blocks);
    return lane;
  }
  /// How many packets of each lane are among the next `packets`.
  std::map<unsigned, unsigned> shares(std::uint32_t ready, unsigned packets,
                                      std::uint32_t blocks = 1) {
    std::map<unsigned, unsigned> shares;
    for (; packets != 0; --packets) ++shares[send(ready, blocks)];
    return shares;
  }

 private:
  void set(unsigned table, const std::vector<Entry>& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      port_->arbitration[table][i] =
          static_cast<std::uint16_t>(entries[i].lane | entries[i].weight << 8);
    }
  }
  std::unique_ptr<LinkRecord> link_ = std::make_unique<LinkRecord>();
  std::unique_ptr<PortRecord> port_ = std::make_unique<PortRecord>();
};

using Shares = std::map<unsigned, unsigned>;

TEST(FabricArbiter, LanesShareByTheirWeights) {
  OutputPort port;
  port.set_low({{0, 10}, {1, 20}, {2, 70}});
  EXPECT_EQ(port.shares(0b111, 1000), (Shares{{0, 100}, {1, 200}, {2, 700}}));
}

TEST(FabricArbiter, WeightsCountBlocksAndTheLastPacketOfATurnMayOverrun) {
  OutputPort port;
  port.set_low({{0, 1}, {1, 66}});
  // A packet of 66 blocks uses up a turn of weight 1.
  EXPECT_EQ(port.shares(0b11, 100, 66), (Shares{{0, 50}, {1, 50}}));
}

TEST(FabricArbiter, ALaneMayHaveSeveralEntriesAndWeightZeroIsSkipped) {
  OutputPort port;
  port.set_low({{0, 1}, {1, 1}, {0, 1}, {2, 0}, {2, 2}});
  EXPECT_EQ(port.shares(0b111, 500), (Shares{{0, 200}, {1, 100}, {2, 200}}));
}

TEST(FabricArbiter, ALaneThatIsNotReadyIsSkipped) {
  OutputPort port;
  port.set_low({{0, 10}, {1, 10}});
  EXPECT_EQ(port.shares(0b10, 100), (Shares{{1, 100}}));
}

TEST(FabricArbiter, HighPriorityYieldsOncePerLimit) {
  OutputPort port;
  port.set_high({{1, 200}});
  port.set_low({{0, 200}});
  port.set_limit(255);
  EXPECT_EQ(port.shares(0b11, 100), (Shares{{1, 100}}));
  OutputPort yields;
  yields.set_high({{1, 200}});
  yields.set_low({{0, 200}});
  yields.set_limit(0);
  EXPECT_EQ(yields.shares(0b11, 100), (Shares{{0, 50}, {1, 50}}));
  yields.set_limit(1);  // 4,096 bytes are 64 blocks.
  yields.shares(0b11, 65);
  EXPECT_EQ(yields.shares(0b11, 650), (Shares{{0, 10}, {1, 640}}));
}

TEST(FabricArbiter, ManagementGoesFirst) {
  OutputPort port;
  port.set_high({{1, 200}});
  port.set_limit(255);
  EXPECT_EQ(port.shares(1u << 15 | 0b10, 10), (Shares{{15, 10}}));
}

TEST(FabricArbiter, WithoutTablesLanesTakeTurns) {
  OutputPort port;
  EXPECT_EQ(port.shares(0b1011, 30), (Shares{{0, 10}, {1, 10}, {3, 10}}));
}

TEST(FabricArbiter, ALaneOfNoTableSendsIfNoOtherIsReady) {
  OutputPort port;
  port.set_low({{0, 1}});
  EXPECT_EQ(port.shares(0b11, 10), (Shares{{0, 10}}));
  EXPECT_EQ(port.shares(0b10, 10), (Shares{{1, 10}}));
}

}  // namespace
}  // namespace verbatim::fabric
