#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"

/// Switches that enforce partitions (IBA 10.9.3, 18.2.4.3).
namespace verbatim::fabric {
namespace {

constexpr PKey kFull{0x8005};
constexpr PKey kLimited{0x0005};

/// Two hosts at one switch, whose first port leads to the first host.
struct PartitionedFabric {
  PartitionedFabric() : fabric(row_of_switches(1, 2)) {}
  NodeIndex node() const { return fabric.image().station_of({0, 0}); }
  void set_keys(unsigned port, PKey key) {
    wire::PKeyTable keys;
    keys.keys[3] = key;
    tables.set_p_keys(node(), port, 0, keys);
  }
  bool arrives(PKey key) {
    const std::array<std::byte, 64> bytes{};
    const std::array<ByteSpan, 1> pieces{ByteSpan(bytes)};
    EXPECT_TRUE(fabric.ends[0]->reserve(0, 64));
    fabric.ends[0]->post({.pieces = pieces,
                          .dlid = fabric.lid(1),
                          .p_key = key,
                          .destination = Qpn(1u << kQpnRangeBits)});
    fabric.ends[0]->push(fabric.walker());
    return fabric.receive(1).size() == 1;
  }
  TestFabric fabric;
  Tables tables{fabric.image()};
};

TEST(FabricPartitions, APortThatEnforcesNothingLetsAllPass) {
  PartitionedFabric partitioned;
  partitioned.set_keys(1, kFull);
  EXPECT_TRUE(partitioned.arrives(kDefaultPKey));
  partitioned.tables.set_enforcement(partitioned.node(), 1, true, true);
  EXPECT_FALSE(partitioned.arrives(kDefaultPKey));
  partitioned.tables.set_enforcement(partitioned.node(), 1, false, false);
  EXPECT_TRUE(partitioned.arrives(kDefaultPKey));
}

TEST(FabricPartitions, WhatComesInIsCheckedAndCounted) {
  PartitionedFabric partitioned;
  partitioned.set_keys(1, kFull);
  partitioned.tables.set_enforcement(partitioned.node(), 1, true, false);
  EXPECT_TRUE(partitioned.arrives(kFull));
  EXPECT_TRUE(partitioned.arrives(kLimited)) << "the port's entry is a full member's";
  EXPECT_FALSE(partitioned.arrives(PKey(0x8006)));
  EXPECT_FALSE(partitioned.arrives(PKey(0x8000))) << "no partition";
  EXPECT_EQ(partitioned.tables.counts(partitioned.node(), 1).in.p_key_errors_in, 2u);
  EXPECT_TRUE(faults_when_empty(partitioned.fabric.image()).empty());
}

TEST(FabricPartitions, LimitedMembersMaySendAsSuchAlone) {
  PartitionedFabric partitioned;
  partitioned.set_keys(1, kLimited);
  partitioned.tables.set_enforcement(partitioned.node(), 1, true, false);
  EXPECT_TRUE(partitioned.arrives(kLimited));
  EXPECT_FALSE(partitioned.arrives(kFull)) << "it is no full member";
}

TEST(FabricPartitions, WhatLeavesIsCheckedAndCounted) {
  PartitionedFabric partitioned;
  partitioned.set_keys(2, kLimited);
  partitioned.tables.set_enforcement(partitioned.node(), 2, false, true);
  EXPECT_TRUE(partitioned.arrives(kFull));
  EXPECT_FALSE(partitioned.arrives(kLimited)) << "two limited members do not talk";
  EXPECT_EQ(partitioned.tables.counts(partitioned.node(), 2).out.p_key_errors, 1u);
  EXPECT_EQ(partitioned.tables.counts(partitioned.node(), 2).out.mtu_discards, 0u);
  EXPECT_TRUE(faults_when_empty(partitioned.fabric.image()).empty());
}

}  // namespace
}  // namespace verbatim::fabric
