#include "fabric/keeper/shared_node_tables.h"

#include <memory>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/management/management_net.h"
#include "mad/sma/plain_tables.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::fabric {
namespace {

/// A switch, an adapter with two ports, another one, and a router.
struct Bench {
  Bench() {
    Builder builder({LinkWidth::x4, LinkSpeed::hdr}, 0);
    const std::uint32_t first = builder.add_numbered(NodeKind::switch_node, 'S', 20);
    const std::uint32_t adapter = builder.add_numbered(NodeKind::adapter, 'H', 2);
    builder.connect(first, adapter);
    builder.connect(first, adapter);
    builder.connect(first, builder.add_numbered(NodeKind::adapter, 'H', 1));
    builder.connect(first, builder.add_numbered(NodeKind::router, 'R', 2));
    topology = builder.take();
    fabric = std::move(SharedFabric::create(topology).value());
    mover = std::move(fabric->join().value());
  }
  SharedNodeTables tables_of(std::uint32_t node) const {
    return {*fabric, *mover, node, SharedNodeTables::Pace::by_link};
  }
  const LinkRecord& link_from(PortPlace port, unsigned port_of_node) const {
    const Image& image = fabric->image();
    return image.link(image.port(image.node(image.station_of(port)), port_of_node).out);
  }
  Topology topology;
  std::unique_ptr<SharedFabric> fabric;
  std::unique_ptr<Mover> mover;
};

void expect_same_routes(const mad::NodeTables& plain, const mad::NodeTables& shared,
                        unsigned ports) {
  for (const unsigned block : {0u, 1u, 767u}) {
    EXPECT_EQ(plain.linear(block), shared.linear(block)) << block;
  }
  for (const unsigned lid : {0u, 1u, 64u, 0xbfffu}) {
    EXPECT_EQ(plain.output_port(Lid(lid)), shared.output_port(Lid(lid))) << lid;
  }
  for (unsigned block = 0; block < 32; ++block) {
    for (unsigned position = 0; position <= ports / 16; ++position) {
      EXPECT_EQ(plain.multicast(block, position), shared.multicast(block, position));
    }
  }
}

void expect_same(const mad::NodeTables& plain, const mad::NodeTables& shared, unsigned ports,
                 bool is_switch) {
  if (is_switch) expect_same_routes(plain, shared, ports);
  for (unsigned port = is_switch ? 0 : 1; port <= ports; ++port) {
    for (unsigned input = 0; input <= (is_switch ? ports : 0); ++input) {
      EXPECT_EQ(plain.sl_to_vl(input, port), shared.sl_to_vl(input, port)) << input << " " << port;
    }
    for (unsigned block = 1; block <= 4; ++block) {
      EXPECT_EQ(plain.vl_arbitration(port, block), shared.vl_arbitration(port, block)) << port;
    }
    // Entries behind a table's end are 0.
    for (std::size_t i = 0; i < shared.p_keys(port).size(); ++i) {
      const auto keys = plain.p_keys(port);
      EXPECT_EQ(i < keys.size() ? keys[i] : 0, shared.p_keys(port)[i]) << port << " " << i;
    }
  }
}

TEST(SharedNodeTables, AreReadAsThoseInPlainMemory) {
  const Bench bench;
  Dice dice(7);
  for (const auto& [node, ports] : {std::pair(0u, 20u), std::pair(1u, 2u)}) {
    const bool is_switch = node == 0;
    SharedNodeTables shared = bench.tables_of(node);
    mad::PlainTables plain(ports, is_switch);
    expect_same(plain, shared, ports, is_switch);
    const auto both = [&](auto set) {
      set(static_cast<mad::NodeTables&>(plain));
      set(static_cast<mad::NodeTables&>(shared));
    };
    const auto byte = [&](unsigned below) { return static_cast<std::uint8_t>(dice(below)); };
    for (unsigned i = 0; i < 200; ++i) {
      wire::LinearForwardingTable linear;
      wire::MulticastForwardingTable multicast;
      wire::SlToVlMappingTable lanes;
      wire::VlArbitrationTable arbitration;
      wire::PKeyTable p_keys;
      for (auto& port : linear.ports) port = byte(256);
      for (auto& mask : multicast.port_masks) mask = static_cast<std::uint16_t>(dice(65536));
      for (auto& lane : lanes.lanes) lane = byte(16);
      for (auto& entry : arbitration.entries) entry = {.lane = byte(15), .weight = byte(256)};
      for (auto& key : p_keys.keys) key = PKey(static_cast<std::uint16_t>(dice(65536)));
      const unsigned port = 1 + dice(ports);
      const unsigned input = is_switch ? dice(ports + 1) : 0;
      const unsigned block = std::array{0u, 1u, 767u}[dice(3)];
      if (is_switch) {
        const unsigned position = dice(ports / 16 + 1);
        const unsigned group_block = dice(32);
        both([&](mad::NodeTables& t) { t.set_linear(block, linear); });
        both([&](mad::NodeTables& t) { t.set_multicast(group_block, position, multicast); });
      }
      both([&](mad::NodeTables& t) { t.set_sl_to_vl(input, port, lanes); });
      const unsigned arbitration_block = 1 + dice(4);
      both([&](mad::NodeTables& t) { t.set_vl_arbitration(port, arbitration_block, arbitration); });
      const unsigned key_block = dice(2);
      both([&](mad::NodeTables& t) { t.set_p_keys(port, key_block, p_keys); });
    }
    expect_same(plain, shared, ports, is_switch);
  }
}

TEST(SharedNodeTables, PortInfoDecidesWhatALinkCarries) {
  const Bench bench;
  SharedNodeTables of_switch = bench.tables_of(0);
  SharedNodeTables of_adapter = bench.tables_of(1);
  const LinkRecord& down = bench.link_from({0, 2}, 2);         // From the switch
  const LinkRecord& up = bench.link_from({1, 2}, kCablePort);  // and to it: the second port.
  const LinkRecord& other = bench.link_from({1, 1}, kCablePort);
  wire::PortInfo info;
  info.width_active = LinkWidth::x4;
  wire::set_active_speed(info, LinkSpeed::edr);
  info.neighbor_mtu = Mtu::k2048;
  info.operational_vls = wire::VirtualLanes::four;
  info.head_of_queue_life = 8;
  info.lid = Lid{40};
  info.lmc = 2;
  info.state = wire::PortState::active;
  of_switch.set_port(2, info);
  EXPECT_EQ(down.passes, static_cast<std::uint8_t>(Passes::management));
  of_adapter.set_port(2, info);
  for (const LinkRecord* link : {&down, &up}) {
    EXPECT_EQ(link->passes, static_cast<std::uint8_t>(Passes::all));
    EXPECT_EQ(link->ps_per_byte, 80u);
    EXPECT_EQ(link->bytes_max, 2048 + 126);
    EXPECT_EQ(link->lanes_in_force, 15);
  }
  EXPECT_EQ(down.hoq_life_us, 1049u);  // 4.096 us * 2^8.
  EXPECT_EQ(up.hoq_life_us, 0u);
  EXPECT_EQ(other.passes, static_cast<std::uint8_t>(Passes::management));
  const Image& image = bench.fabric->image();
  EXPECT_EQ(image.node(image.station_of({1, 2})).lid, 40);
  EXPECT_EQ(image.node(image.station_of({1, 2})).lmc, 2);
  EXPECT_EQ(image.node(image.station_of({1, 1})).lid, 0);

  info.head_of_queue_life = wire::PortInfo::kUnlimitedHeadOfQueueLife;
  of_switch.set_port(2, info);
  EXPECT_EQ(down.hoq_life_us, 0u);
  info.state = wire::PortState::down;
  of_adapter.set_port(2, info);
  EXPECT_EQ(down.passes, static_cast<std::uint8_t>(Passes::nothing));

  of_switch.set_switch({.lifetime = 4});
  EXPECT_EQ(image.node(image.station_of({0, 0})).lifetime_us, 66u);
  of_switch.set_switch({.lifetime = wire::SwitchInfo::kUnlimitedLifetime});
  EXPECT_EQ(image.node(image.station_of({0, 0})).lifetime_us, 0u);
}

/// A manager's net with these tables: cables that are pulled stop data, too.
TEST(SharedNodeTables, RoutersPortsHaveLidsAndPrefixes) {
  Bench bench;
  SharedNodeTables of_router = bench.tables_of(3);
  const Image& image = bench.fabric->image();
  const NodeRecord& router = image.node(image.station_of({3, 1}));
  ASSERT_EQ(image.station_of({3, 1}), image.station_of({3, 2}));
  of_router.set_port(1, {.gid_prefix = 0xfec1ULL << 48, .lid = Lid{8}, .lmc = 1});
  of_router.set_port(2, {.gid_prefix = 0xfec2ULL << 48, .lid = Lid{8}});
  EXPECT_EQ(image.port(router, 1).gid_prefix, 0xfec1ULL << 48);
  EXPECT_EQ(image.port(router, 2).gid_prefix, 0xfec2ULL << 48);
  EXPECT_EQ(image.port(router, 1).lid, 8);
  EXPECT_EQ(image.port(router, 1).lmc, 1);
  SharedNodeTables of_host = bench.tables_of(2);
  of_host.set_port(1, {.gid_prefix = 0xfec1ULL << 48});
  const NodeIndex host = image.station_of({2, 1});
  EXPECT_EQ(image.port(image.node(host), kCablePort).gid_prefix, 0xfec1ULL << 48);
  EXPECT_EQ(image.station_by_guid(identity_of(bench.topology.nodes[2], 1).guid), host);
}

TEST(SharedNodeTables, ARouterHasOneTableOfLanesForEachPort) {
  Bench bench;
  SharedNodeTables of_router = bench.tables_of(3);
  wire::SlToVlMappingTable lanes;
  lanes.lanes.fill(3);
  of_router.set_sl_to_vl(0, 2, lanes);
  const NodeIndex router = bench.fabric->image().station_of({3, 1});
  EXPECT_EQ(bench.fabric->tables().lanes(router, 1, 2), lanes);
  EXPECT_NE(bench.fabric->tables().lanes(router, 2, 1), lanes);
}

TEST(SharedNodeTables, ACableThatIsPulledCarriesNothing) {
  const Bench bench;
  struct Software final : HostSoftware {
    void on_datagram(PortPlace, const ManagementDatagram&, TimeNs) override {}
    void on_port_changed(PortPlace) override {}
  } software;
  ManagementNet net(bench.topology, software, 1, [&](std::uint32_t node) {
    return std::make_unique<SharedNodeTables>(*bench.fabric, *bench.mover, node,
                                              SharedNodeTables::Pace::unlimited);
  });
  const LinkRecord& link = bench.link_from({0, 1}, 1);
  EXPECT_EQ(link.passes, static_cast<std::uint8_t>(Passes::management));
  EXPECT_EQ(link.ps_per_byte, 0u);
  net.set_link(0, false, kSecond);
  EXPECT_EQ(link.passes, static_cast<std::uint8_t>(Passes::nothing));
  net.set_link(0, true, 2 * kSecond);
  net.on_time(3 * kSecond);
  EXPECT_EQ(link.passes, static_cast<std::uint8_t>(Passes::management));
}

}  // namespace
}  // namespace verbatim::fabric
