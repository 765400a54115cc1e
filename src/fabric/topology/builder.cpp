#include "fabric/topology/builder.h"

#include <utility>

#include "base/assert.h"

namespace verbatim::fabric {

std::uint32_t Builder::add(NodeKind kind, std::string name, unsigned ports) {
  Node node{.kind = kind, .ports = static_cast<std::uint8_t>(ports), .name = std::move(name)};
  std::uint64_t& next = next_guids_[static_cast<std::size_t>(kind)];
  node.guid = node.system_image_guid = next;
  if (kind == NodeKind::switch_node) {
    node.enhanced_port_0 = true;
    node.identities = {{.guid = node.guid}};
    next += 1;
  } else {
    node.identities.resize(ports);
    for (unsigned port = 1; port <= ports; ++port) identity_of(node, port).guid = next + port;
    next += ports + 1;
  }
  topology_.nodes.push_back(std::move(node));
  used_ports_.push_back(0);
  return static_cast<std::uint32_t>(topology_.nodes.size() - 1);
}

std::uint32_t Builder::add_numbered(NodeKind kind, char letter, unsigned ports) {
  std::uint32_t& number = numbers_[static_cast<unsigned char>(letter) & 0x7f];
  return add(kind, letter + std::to_string(++number), ports);
}

void Builder::connect(std::uint32_t a, std::uint32_t b) {
  VERBATIM_ASSERT(has_free_port(a) && (a == b || has_free_port(b)));
  const PortPlace first{a, ++used_ports_[a]};
  const PortPlace second{b, ++used_ports_[b]};
  topology_.links.push_back(
      {.a = first, .b = second, .width = rate_.width, .speed = rate_.speed, .length_m = length_m_});
}

Topology Builder::take() {
  sort_links(topology_);
  return std::move(topology_);
}

}  // namespace verbatim::fabric
