#include "offload/driver/words/tunnel_header.h"

#include <cstddef>

namespace verbatim::offload::driver {
namespace {

/// A field of a header: if it is zero, it becomes `usual`.
struct Default {
  rte_flow_item_type item;
  std::size_t at;
  std::size_t size;
  std::uint32_t usual;
};
constexpr Default kDefaults[] = {
    {RTE_FLOW_ITEM_TYPE_IPV4, 0, 1, 0x45}, {RTE_FLOW_ITEM_TYPE_IPV4, 8, 1, 64},
    {RTE_FLOW_ITEM_TYPE_IPV4, 9, 1, 17},   {RTE_FLOW_ITEM_TYPE_IPV6, 0, 4, 0x60000000},
    {RTE_FLOW_ITEM_TYPE_IPV6, 6, 1, 17},   {RTE_FLOW_ITEM_TYPE_IPV6, 7, 1, 64},
    {RTE_FLOW_ITEM_TYPE_UDP, 2, 2, 4789},  {RTE_FLOW_ITEM_TYPE_VXLAN, 0, 1, 0x08},
};

/// Bytes on the wire; 0: not a header of a VXLAN tunnel.
std::size_t bytes_of(rte_flow_item_type type) {
  switch (type) {
    case RTE_FLOW_ITEM_TYPE_ETH:
      return 14;
    case RTE_FLOW_ITEM_TYPE_VLAN:
      return 4;
    case RTE_FLOW_ITEM_TYPE_IPV4:
      return 20;
    case RTE_FLOW_ITEM_TYPE_IPV6:
      return 40;
    case RTE_FLOW_ITEM_TYPE_UDP:
    case RTE_FLOW_ITEM_TYPE_VXLAN:
      return 8;
    default:
      return 0;
  }
}

/// The Ethernet type that announces the item; 0: none does.
std::uint16_t ethernet_type(rte_flow_item_type type) {
  return type == RTE_FLOW_ITEM_TYPE_VLAN   ? 0x8100
         : type == RTE_FLOW_ITEM_TYPE_IPV4 ? 0x0800
         : type == RTE_FLOW_ITEM_TYPE_IPV6 ? 0x86dd
                                           : 0;
}

void fill(std::vector<std::uint8_t>& header, std::size_t at, std::size_t size,
          std::uint32_t usual) {
  for (std::size_t i = 0; i < size; ++i) {
    if (header[at + i] != 0) return;
  }
  for (std::size_t i = size; i-- > 0; usual >>= 8) {
    header[at + i] = static_cast<std::uint8_t>(usual);
  }
}

}  // namespace

std::vector<std::uint8_t> header_of(const rte_flow_item* items) {
  std::vector<std::uint8_t> header;
  for (; items->type != RTE_FLOW_ITEM_TYPE_END; ++items) {
    if (items->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
    const std::size_t size = bytes_of(items->type);
    if (size == 0 || items->spec == nullptr) return {};
    const std::size_t at = header.size();
    if (const std::uint16_t type = ethernet_type(items->type)) {
      if (at < 2) return {};
      fill(header, at - 2, 2, type);  // The last bytes of an Ethernet header and of a tag.
    }
    const auto* const bytes = static_cast<const std::uint8_t*>(items->spec);
    header.insert(header.end(), bytes, bytes + size);
    for (const Default& each : kDefaults) {
      if (each.item == items->type) fill(header, at + each.at, each.size, each.usual);
    }
  }
  return header;
}

}  // namespace verbatim::offload::driver
