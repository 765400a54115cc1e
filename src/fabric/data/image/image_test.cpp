#include "fabric/data/image/image.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/sparse_file.h"
#include "fabric/data/fabric_for_test.h"

namespace verbatim::fabric {
namespace {

TEST(FabricImage, AttachesToWhatCreateHasMade) {
  const Topology topology = row_of_switches(3, 4);
  const Image image = std::move(Image::create(topology).value());
  const Image other = std::move(Image::attach(image.fd()).value());
  EXPECT_EQ(other.extent(), image.extent());
  ASSERT_EQ(hosts_of(other).size(), 4);
  for (std::uint32_t cable = 0; cable < topology.links.size(); ++cable) {
    const Link& link = topology.links[cable];
    const LinkRecord& there = other.link(other.link_of_cable(cable, false));
    const LinkRecord& back = other.link(other.link_of_cable(cable, true));
    EXPECT_EQ(there.start, other.station_of(link.a));
    EXPECT_EQ(there.end, other.station_of(link.b));
    EXPECT_EQ(back.start, there.end);
    EXPECT_EQ(back.end, there.start);
    EXPECT_EQ(other.port(other.node(there.start), there.start_port).out,
              other.link_of_cable(cable, false));
  }
}

TEST(FabricImage, AnAdapterHasANodeForEachPort) {
  Builder builder({LinkWidth::x4, LinkSpeed::hdr}, 0);
  const std::uint32_t first = builder.add_numbered(NodeKind::switch_node, 'S', 4);
  builder.connect(first, builder.add_numbered(NodeKind::adapter, 'H', 2));
  const Image image = std::move(Image::create(builder.take()).value());
  EXPECT_EQ(hosts_of(image).size(), 2);
  EXPECT_EQ(image.station_of({1, 2}), image.station_of({1, 1}) + 1);
  EXPECT_EQ(image.station_of({1, 3}), 0) << "a port that there is not";
  EXPECT_EQ(image.station_of({0, 3}), image.station_of({0, 0})) << "a switch is one node";
  EXPECT_EQ(image.station_of({2, 1}), 0);
}

TEST(FabricImage, TakesMemoryOnlyForWhatIsUsed) {
  GenerateOptions options;
  options.hosts = 1000;
  const Image image = std::move(Image::create(generate(Shape::fat_tree, options).value()).value());
  struct stat status{};
  ASSERT_EQ(fstat(image.fd(), &status), 0);
  EXPECT_GT(status.st_size, 100 << 20);
  EXPECT_LT(status.st_blocks * 512, 24 << 20);
}

TEST(FabricImage, RefusesWhatIsNoImage) {
  const auto refused = [](int fd) { return !Image::attach(fd).has_value(); };
  const UniqueFd zeros = std::move(create_sparse_file("zeros", 1 << 20).value());
  EXPECT_TRUE(refused(zeros.get()));
  const UniqueFd unsealed(memfd_create("unsealed", MFD_ALLOW_SEALING));
  EXPECT_TRUE(refused(unsealed.get()));
  EXPECT_TRUE(refused(-1));

  const Image image = std::move(Image::create(row_of_switches(1, 2)).value());
  const Extent good = image.header().extent;
  for (std::uint32_t Extent::* count :
       {&Extent::movers, &Extent::nodes, &Extent::topology_nodes, &Extent::ports, &Extent::switches,
        &Extent::switch_ports, &Extent::hosts, &Extent::links, &Extent::ends, &Extent::slots}) {
    for (const std::uint32_t value : {0u, good.*count + 5000, 0xffff'ffffu}) {
      if (value == good.*count) continue;
      image.header().extent = good;
      image.header().extent.*count = value;
      EXPECT_TRUE(refused(image.fd())) << value;
    }
  }
  image.header().extent = good;
  image.header().version = kImageVersion + 1;
  EXPECT_TRUE(refused(image.fd()));
}

TEST(FabricImage, IndicesBeyondTheEndAreTheNullRecord) {
  const Image image = std::move(Image::create(row_of_switches(1, 2)).value());
  constexpr std::uint32_t kFar = 0xffff'ffff;
  EXPECT_EQ(&image.link(kFar), &image.link(0));
  EXPECT_EQ(&image.slot(kFar), &image.slot(0));
  EXPECT_EQ(&image.node(kFar), &image.node(0));
  EXPECT_EQ(&image.end(kFar), &image.end(0));
  EXPECT_EQ(&image.mover(kFar), &image.mover(0));
  EXPECT_EQ(&image.ring(kFar), &image.ring(image.from_end(0)));
  EXPECT_EQ(&image.port(image.node(1), 200), &image.port(image.node(0), 0));
}

TEST(FabricImage, TablesAreReadAsWritten) {
  const Image image = std::move(Image::create(row_of_switches(2, 2)).value());
  Tables tables(image);
  const NodeIndex node = image.station_of({0, 0});
  EXPECT_EQ(tables.linear(node, 0).ports[5], wire::LinearForwardingTable::kNoPort);
  wire::LinearForwardingTable linear;
  wire::MulticastForwardingTable multicast;
  wire::SlToVlMappingTable lanes;
  wire::VlArbitrationTable arbitration;
  wire::PKeyTable p_keys;
  for (unsigned i = 0; i < 64; ++i) linear.ports[i] = static_cast<std::uint8_t>(i * 5);
  for (unsigned i = 0; i < 32; ++i) {
    multicast.port_masks[i] = static_cast<std::uint16_t>(i * 999);
    arbitration.entries[i] = {.lane = static_cast<std::uint8_t>(i % 15),
                              .weight = static_cast<std::uint8_t>(i * 8)};
    p_keys.keys[i] = PKey(static_cast<std::uint16_t>(0x8000 + i));
  }
  for (unsigned i = 0; i < 16; ++i) lanes.lanes[i] = static_cast<std::uint8_t>(15 - i);
  tables.set_linear(node, 767, linear);
  tables.set_multicast(node, 31, 2, multicast);
  tables.set_lanes(node, 3, 36, lanes);
  tables.set_arbitration(node, 36, 4, arbitration);
  tables.set_p_keys(node, 1, 3, p_keys);
  EXPECT_EQ(tables.linear(node, 767), linear);
  EXPECT_EQ(tables.multicast(node, 31, 2), multicast);
  EXPECT_EQ(tables.lanes(node, 3, 36), lanes);
  EXPECT_EQ(tables.arbitration(node, 36, 4), arbitration);
  EXPECT_EQ(tables.p_keys(node, 1, 3), p_keys);
  // Neighbors in the table are as they were.
  EXPECT_EQ(tables.linear(node, 766).ports[63], wire::LinearForwardingTable::kNoPort);
  EXPECT_EQ(tables.multicast(node, 31, 1), wire::MulticastForwardingTable{});
  EXPECT_EQ(tables.lanes(node, 3, 35), wire::SlToVlMappingTable{});
  EXPECT_EQ(tables.arbitration(node, 36, 3), wire::VlArbitrationTable{});
}

}  // namespace
}  // namespace verbatim::fabric
