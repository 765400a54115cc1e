#include "verbatim/context.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "api/handles.h"

namespace verbatim::inline v1 {
namespace {

/// The contexts that rdma_cm has opened: a queue pair that rdma_cm connects must be made in one of
/// these. They stay open until the program ends.
struct DeviceList {
  DeviceList() : contexts(rdma_get_devices(&count)) {}
  ~DeviceList() {
    if (contexts != nullptr) rdma_free_devices(contexts);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  int count = 0;
  ibv_context** contexts;
};

/// Converts an IP address or a GID in text to a GID.
std::optional<Gid> gid_of(const std::string& text) {
  Gid gid;
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) {
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(&gid.bytes[12], &four, sizeof four);
    return gid;
  }
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

bool is_of_ipv4(const Gid& gid) {
  return std::all_of(gid.bytes.begin(), gid.bytes.begin() + 10,
                     [](auto byte) { return byte == 0; }) &&
         gid.bytes[10] == 0xff && gid.bytes[11] == 0xff;
}

PortInfo describe_port(ibv_context* context, std::uint8_t number) {
  PortInfo port{.number = number};
  ibv_port_attr attributes{};
  if (ibv_query_port(context, number, &attributes) != 0) return port;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  port.mtu_bytes = 128u << attributes.active_mtu;
  for (int index = 0; index < attributes.gid_tbl_len; ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(context, number, index, &gid) != 0) break;
    std::memcpy(port.gids.emplace_back().bytes.data(), gid.raw, sizeof gid.raw);
  }
  while (!port.gids.empty() && port.gids.back() == Gid{}) port.gids.pop_back();
  return port;
}

DeviceInfo describe(ibv_context* context) {
  DeviceInfo info{.name = ibv_get_device_name(context->device)};
  info.is_iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  ibv_device_attr attributes{};
  if (ibv_query_device(context, &attributes) != 0) return info;
  info.node_guid = be64toh(attributes.node_guid);
  for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    info.ports.push_back(describe_port(context, number));
  }
  return info;
}

/// Returns the GID index for the port's connections; -1 if the port does not fit the choice.
int gid_index_of(const PortInfo& port, const DeviceChoice& choice,
                 const std::optional<Gid>& wanted) {
  if (choice.port != 0 ? choice.port != port.number : !port.active) return -1;
  const auto& gids = port.gids;
  if (choice.gid_index >= 0)
    return static_cast<std::size_t>(choice.gid_index) < gids.size() ? choice.gid_index : -1;
  if (wanted) {
    const auto found = std::find(gids.begin(), gids.end(), *wanted);
    return found == gids.end() ? -1 : static_cast<int>(found - gids.begin());
  }
  const auto of_ipv4 = std::find_if(gids.begin(), gids.end(), is_of_ipv4);
  return of_ipv4 == gids.end() ? 0 : static_cast<int>(of_ipv4 - gids.begin());
}

Failure no_device(const char* detail, int code = ENODEV) {
  return detail::refused(Call::open_device, code, detail);
}

}  // namespace

std::string Gid::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

Result<std::vector<DeviceInfo>> devices() {
  const DeviceList list;
  if (list.contexts == nullptr) return no_device("the list of devices cannot be had", errno);
  std::vector<DeviceInfo> found;
  for (int i = 0; i < list.count; ++i) found.push_back(describe(list.contexts[i]));
  return found;
}

Result<Context> Context::open(const DeviceChoice& choice) {
  const auto wanted = choice.address.empty() ? std::nullopt : gid_of(choice.address);
  if (!choice.address.empty() && !wanted)
    return no_device("the address is neither an IP address nor a GID", EINVAL);
  const DeviceList list;
  if (list.contexts == nullptr || list.count == 0) {
    return no_device(
        "there is no RDMA device: is the program started with `verbatim run`, or is a card's "
        "driver loaded?");
  }
  for (int i = 0; i < list.count; ++i) {
    ibv_context* const context = list.contexts[i];
    if (!choice.name.empty() && choice.name != ibv_get_device_name(context->device)) continue;
    const DeviceInfo info = describe(context);
    for (const PortInfo& port : info.ports) {
      const int index = gid_index_of(port, choice, wanted);
      if (index < 0) continue;
      auto handle = std::make_shared<detail::DeviceHandle>();
      *handle = {context, info, port, static_cast<std::uint8_t>(index)};
      return Context(std::move(handle));
    }
  }
  return no_device(
      "no device has that name, address, port or GID index with an active port (ibv_devinfo -v "
      "lists them)");
}

const DeviceInfo& Context::device() const noexcept { return handle_->info; }
const PortInfo& Context::port() const noexcept { return handle_->port; }
std::uint8_t Context::gid_index() const noexcept { return handle_->gid_index; }
Gid Context::gid() const noexcept {
  return handle_->gid_index < handle_->port.gids.size() ? handle_->port.gids[handle_->gid_index]
                                                        : Gid{};
}
ibv_context* Context::native() const noexcept { return handle_->context; }

}  // namespace verbatim::inline v1
