#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/link_rate.h"
#include "base/net/path.h"

/// What an InfiniBand fabric is made of: nodes, and the cables between their ports. Values without
/// behaviour; files, generators and the running fabric all meet here.
namespace verbatim::fabric {

enum class NodeKind : std::uint8_t { adapter, switch_node, router };

/// "Ca", "Switch", "Rt": the word of `ibnetdiscover`.
std::string_view word_of(NodeKind kind);
/// 'H', 'S', 'R': how an id of `ibnetdiscover` begins.
char letter_of(NodeKind kind);

/// Who a port is. LID 0: a manager has yet to give one.
struct PortIdentity {
  std::uint64_t guid = 0;
  Lid lid{};
  std::uint8_t lmc = 0;
  friend bool operator==(const PortIdentity&, const PortIdentity&) = default;
};

struct Node {
  NodeKind kind{};
  std::uint8_t ports = 0;  // Physical ones, 1 to 254.
  bool enhanced_port_0 = false;
  std::string name;  // Its NodeDescription.
  std::uint64_t guid = 0;
  std::uint64_t system_image_guid = 0;  // 0: not told.
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  /// A switch: its port 0 alone. Others: ports 1, 2, ... in this order.
  std::vector<PortIdentity> identities;
  friend bool operator==(const Node&, const Node&) = default;
};

/// The identity by which packets reach `port` of `node`.
const PortIdentity& identity_of(const Node& node, unsigned port);
PortIdentity& identity_of(Node& node, unsigned port);

/// One end of a cable: a node by its place in `Topology::nodes`, and a port.
struct PortPlace {
  std::uint32_t node = 0;
  std::uint8_t port = 0;
  friend auto operator<=>(const PortPlace&, const PortPlace&) = default;
};

/// A cable. `a` is the lower of both ends.
struct Link {
  PortPlace a;
  PortPlace b;
  LinkWidth width = LinkWidth::x4;
  LinkSpeed speed = LinkSpeed::sdr;
  std::uint32_t length_m = 0;  // 0: not told.
  friend bool operator==(const Link&, const Link&) = default;
};

struct Topology {
  std::vector<Node> nodes;
  std::vector<Link> links;  // In the order of their ends `a`.
  friend bool operator==(const Topology&, const Topology&) = default;
};

/// Orders both ends of every link, and the links.
void sort_links(Topology& topology);

inline constexpr std::uint8_t kPortsMax = 254;    // 255 names all ports, or none (IBA 14.2.5.10).
inline constexpr std::size_t kNodesMax = 0xbfff;  // Each needs a LID.
inline constexpr std::size_t kNameBytesMax = 64;

/// What is wrong, and where.
struct Fault {
  unsigned line = 0;  // 0: in no line.
  std::string text;
  friend bool operator==(const Fault&, const Fault&) = default;
};
/// "line 7: ...".
std::string text_of(const Fault& fault);

/// More faults than these are not told.
inline constexpr std::size_t kFaultsMax = 100;

/// The lines that nodes and links were read from; empty if they were made.
struct Lines {
  std::vector<unsigned> nodes;
  std::vector<unsigned> links;
};

/// Everything that keeps this from being a fabric: GUIDs twice or zero, names that cannot be a
/// NodeDescription, ports that there are not, two cables in one port.
std::vector<Fault> faults_of(const Topology& topology, const Lines& lines = {});

/// "4xHDR".
std::string rate_text(LinkWidth width, LinkSpeed speed);

struct Rate {
  LinkWidth width;
  LinkSpeed speed;
  friend bool operator==(const Rate&, const Rate&) = default;
};
std::optional<Rate> parse_rate(std::string_view text);

}  // namespace verbatim::fabric
