#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "dropin/ibumad/host.h"
#include "dropin/ibumad/umad.h"
#include "dropin/ibverbs/refusal.h"
#include "fabric/protocol/fabric_folder.h"

/// Which devices and ports there are. A host has one device.
namespace verbatim::ibumad {
namespace {

constexpr unsigned kChannelAdapter = 1;

/// Calls return errno values as negative numbers.
int refused_negative(const char* call, const Error& error) {
  errno = dropin::refused(call, error);
  return -errno;
}

Result<protocol::HostDescription> describe_device(const char* name) {
  auto host = describe_host();
  if (!host) return host;
  if (auto ours = check_device(*host, name); !ours) return std::unexpected(ours.error());
  return host;
}

/// What `fill` allocates is freed by umad_release_port.
bool fill(umad_port_t& out, const protocol::HostDescription& host, const Port& port) {
  const protocol::PortDescription& facts = port.facts;
  const std::size_t count = std::min<std::size_t>(facts.pkey_count, facts.pkeys.size());
  auto* const pkeys = static_cast<std::uint16_t*>(std::calloc(count + 1, sizeof(std::uint16_t)));
  if (pkeys == nullptr) return false;
  std::copy_n(facts.pkeys.begin(), count, pkeys);
  out = {};
  protocol::put_text(out.ca_name, protocol::text_of(host.device));
  out.portnum = static_cast<int>(port.number);
  out.base_lid = facts.lid;
  out.lmc = facts.lmc;
  out.sm_lid = facts.sm_lid;
  out.sm_sl = facts.sm_service_level;
  out.state = facts.state;
  out.phys_state = facts.physical_state;
  out.rate = facts.rate_mbps / 1000;
  out.capmask = htobe32(facts.capabilities);
  out.gid_prefix = htobe64(facts.gid_prefix);
  out.port_guid = htobe64(facts.guid);
  out.pkeys_size = static_cast<unsigned>(count);
  out.pkeys = pkeys;
  protocol::put_text(out.link_layer, is_on_host() ? "InfiniBand" : "Ethernet");
  return true;
}

bool fill(umad_ca_t& out, const protocol::HostDescription& host) {
  out = {};
  protocol::put_text(out.ca_name, protocol::text_of(host.device));
  out.node_type = kChannelAdapter;
  out.numports = static_cast<int>(host.port_count);
  protocol::put_text(out.fw_ver, protocol::text_of(host.firmware));
  protocol::put_text(out.ca_type, protocol::text_of(host.hca_type));
  protocol::put_text(out.hw_ver, protocol::text_of(host.hardware));
  out.node_guid = htobe64(host.guid);
  out.system_guid = htobe64(host.system_image_guid);
  for (int number = 1; number <= out.numports; ++number) {
    const auto port = choose_port(host, number);
    auto* const entry = static_cast<umad_port_t*>(std::calloc(1, sizeof(umad_port_t)));
    if (!port || entry == nullptr || !fill(*entry, host, *port)) {
      std::free(entry);
      return false;
    }
    out.ports[number] = entry;
  }
  return true;
}

Result<std::string> issm_path(const char* device, int number) {
  const auto host = describe_device(device);
  if (!host) return std::unexpected(host.error());
  const auto port = choose_port(*host, number);
  if (!port) return std::unexpected(port.error());
  const auto connection = connect_to_fabric();
  if (!connection) return std::unexpected(connection.error());
  const protocol::IssmRequest request{.host = host_name(),
                                      .port = static_cast<std::uint8_t>(port->number)};
  const auto made = protocol::ask<protocol::IssmPath>(connection->get(), request);
  if (!made) return std::unexpected(made.error());
  return std::string(protocol::text_of(made->path));
}

}  // namespace
}  // namespace verbatim::ibumad

using namespace verbatim;

extern "C" {

int umad_init() { return 0; }
int umad_done() { return 0; }

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max) {
  const auto host = ibumad::describe_host();
  if (!host) {
    dropin::refused("umad_get_cas_names", host.error());
    return 0;
  }
  if (max < 1) return 0;
  fabric::protocol::put_text(std::span(cas[0]), fabric::protocol::text_of(host->device));
  return 1;
}

umad_device_node* umad_get_ca_device_list() {
  const auto host = ibumad::describe_host();
  if (!host) {
    dropin::refused("umad_get_ca_device_list", host.error());
    errno = 0;  // "No device" is no error here.
    return nullptr;
  }
  const auto name = fabric::protocol::text_of(host->device);
  auto* const node =
      static_cast<umad_device_node*>(std::calloc(1, sizeof(umad_device_node) + name.size() + 1));
  if (node == nullptr) return nullptr;
  char* const text = reinterpret_cast<char*>(node + 1);
  name.copy(text, name.size());
  node->ca_name = text;
  return node;
}

void umad_free_ca_device_list(umad_device_node* head) {
  while (head != nullptr) {
    umad_device_node* const next = head->next;
    std::free(head);
    head = next;
  }
}

/// Programs may have chained lists of their own making.
int umad_sort_ca_device_list(umad_device_node** head, size_t size) {
  std::vector<umad_device_node*> nodes;
  for (auto* node = *head; node != nullptr; node = node->next) nodes.push_back(node);
  if (size != 0 && nodes.size() > size) return EINVAL;
  std::ranges::stable_sort(
      nodes, [](const auto* a, const auto* b) { return std::strcmp(a->ca_name, b->ca_name) < 0; });
  umad_device_node** link = head;
  for (auto* node : nodes) {
    *link = node;
    link = &node->next;
  }
  *link = nullptr;
  return 0;
}

int umad_get_ca(const char* ca_name, umad_ca_t* ca) {
  const auto host = ibumad::describe_device(ca_name);
  if (!host) return ibumad::refused_negative("umad_get_ca", host.error());
  if (ibumad::fill(*ca, *host)) return 0;
  umad_release_ca(ca);
  return -ENOMEM;
}

int umad_release_ca(umad_ca_t* ca) {
  if (ca == nullptr) return -ENODEV;
  for (umad_port_t*& port : ca->ports) {
    if (port == nullptr) continue;
    umad_release_port(port);
    std::free(port);
    port = nullptr;
  }
  return 0;
}

int umad_get_port(const char* ca_name, int portnum, umad_port_t* port) {
  const auto host = ibumad::describe_device(ca_name);
  if (!host) return ibumad::refused_negative("umad_get_port", host.error());
  const auto chosen = ibumad::choose_port(*host, portnum);
  if (!chosen) return ibumad::refused_negative("umad_get_port", chosen.error());
  return ibumad::fill(*port, *host, *chosen) ? 0 : -ENOMEM;
}

int umad_release_port(umad_port_t* port) {
  if (port == nullptr) return -ENODEV;
  std::free(port->pkeys);
  port->pkeys = nullptr;
  port->pkeys_size = 0;
  return 0;
}

/// The index is the port's number: entry 0 is zero.
int umad_get_ca_portguids(const char* ca_name, __be64* portguids, int max) {
  const auto host = ibumad::describe_device(ca_name);
  if (!host) return ibumad::refused_negative("umad_get_ca_portguids", host.error());
  const int count = static_cast<int>(host->port_count) + 1;
  if (portguids == nullptr) return count;
  if (max < count) return -ENOMEM;
  portguids[0] = 0;
  for (int port = 1; port < count; ++port) portguids[port] = htobe64(host->ports[port - 1].guid);
  return count;
}

int umad_get_issm_path(const char* ca_name, int portnum, char path[], int max) {
  const auto issm = ibumad::issm_path(ca_name, portnum);
  if (!issm) return ibumad::refused_negative("umad_get_issm_path", issm.error());
  if (static_cast<int>(issm->size()) >= max) return -ENOSPC;
  std::memcpy(path, issm->c_str(), issm->size() + 1);
  return 0;
}

}  // extern "C"
