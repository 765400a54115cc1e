#include "fabric/data/image/audit.h"

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/image/gate.h"

namespace verbatim::fabric {
namespace {

/// Packets wait in all buffers from the first host to the second.
struct FullFabric : TestFabric {
  FullFabric() : TestFabric(row_of_switches(2, 2), {.block_capacity = 8}) {
    for (std::uint32_t i = 0; send(0, 1, {.number = i}, 200); ++i) ends[0]->push(walker());
  }
  LinkRecord& cable(bool from_b = false) { return image().link(image().link_of_cable(0, from_b)); }
};

bool tells(const Image& image, std::string_view words) {
  return std::ranges::any_of(audit(image), [&](const std::string& fault) {
    return fault.find(words) != std::string::npos;
  });
}

TEST(FabricAudit, FindsNothingInAFullFabric) {
  FullFabric fabric;
  EXPECT_TRUE(audit(fabric.image()).empty());
}

TEST(FabricAudit, FindsCreditsThatAreLost) {
  FullFabric fabric;
  fabric.cable().freed[0] -= 3;
  EXPECT_TRUE(tells(fabric.image(), "lane 0: 11 blocks are not free, 8 are in the buffer"));
}

TEST(FabricAudit, FindsPacketsThatNothingStarts) {
  FullFabric fabric;
  fabric.cable().freed[0] += 8;
  EXPECT_TRUE(tells(fabric.image(), "lane 0: packets could leave"));
}

TEST(FabricAudit, FindsNewsWithoutAMover) {
  FullFabric fabric;
  fabric.cable().gate = Gate(0).with_news().word();
  EXPECT_TRUE(tells(fabric.image(), "no mover has been told"));
}

TEST(FabricAudit, FindsTimersThatNobodyLooksAt) {
  FullFabric fabric;
  fabric.cable().due_at = 5;
  EXPECT_TRUE(tells(fabric.image(), "its timer and its bit contradict"));
  fabric.image().timed_links(0) |= 1ULL << fabric.image().link_of_cable(0, false);
  EXPECT_FALSE(tells(fabric.image(), "its timer and its bit contradict"));
  EXPECT_TRUE(tells(fabric.image(), "nobody will look at its timer"));
}

TEST(FabricAudit, FindsAWaitWithoutPackets) {
  FullFabric fabric;
  fabric.cable(true).blocked_at = 5;
  EXPECT_TRUE(tells(fabric.image(), "it counts a wait for credits, and has no packets"));
}

TEST(FabricAudit, FindsAProgramThatWaitsForWhatIsThere) {
  FullFabric fabric;
  fabric.image().end(fabric.ends[0]->index()).waits_for_slots = 1;
  EXPECT_TRUE(tells(fabric.image(), "waits for a slot, and there is one"));
}

TEST(FabricAudit, FindsWhatIsSteeredToProgramsThatHaveEnded) {
  FullFabric fabric;
  fabric.image().end(fabric.ends[1]->index()).state = EndRecord::kDraining;
  EXPECT_TRUE(tells(fabric.image(), "which no program has"));
}

}  // namespace
}  // namespace verbatim::fabric
