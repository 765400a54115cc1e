#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// The GID tables of the ports.
namespace verbatim::dropin {
namespace {

bool is_in_use(const port::Port& port, std::uint32_t index) {
  return index < port.gids().size() && port.state().has_gid(index);
}

ibv_gid_entry describe(const Program& program, std::uint32_t port, std::uint32_t index) {
  adapter::Adapter& adapter = *program.adapter;
  const arena::Node& node = adapter.node();
  if (node.is_infiniband()) {  // Its prefix may have changed since.
    return {.gid = to_verbs(arena::gid_of(infiniband_port(program, port))),
            .port_num = port,
            .gid_type = IBV_GID_TYPE_IB};
  }
  if (node.is_iwarp()) {
    return {.gid = to_verbs(rnic_gid(node.mac)),
            .port_num = 1,
            .gid_type = IBV_GID_TYPE_IB,
            .ndev_ifindex = node.interface_index};
  }
  const port::GidEntry& entry = adapter.port().gids()[index];
  return {.gid = to_verbs(entry.gid),
          .gid_index = index,
          .port_num = 1,
          .gid_type =
              std::uint32_t{roce_version(entry.address) == RoceVersion::v1 ? IBV_GID_TYPE_ROCE_V1
                                                                           : IBV_GID_TYPE_ROCE_V2},
          .ndev_ifindex = node.interface_index};
}

/// Returns the entries that have a GID now, of all ports.
std::vector<ibv_gid_entry> entries_in_use(const Program& program) {
  adapter::Adapter& adapter = *program.adapter;
  std::vector<ibv_gid_entry> entries;
  for (std::uint32_t port = 1; port <= adapter.ports().size(); ++port) {
    for (std::uint32_t i = 0; i < gid_table_length(adapter.node()); ++i) {
      if (is_in_use(adapter.port(port), i)) entries.push_back(describe(program, port, i));
    }
  }
  return entries;
}

/// EINVAL for an index beyond the table, ENODATA for an entry without a GID.
Result<ibv_gid_entry> find(ibv_context* context, std::uint32_t port, std::uint32_t index) {
  adapter::Adapter& adapter = from(context).adapter();
  if (auto exists = adapter.ports().check(port); !exists) return std::unexpected(exists.error());
  if (const std::uint32_t length = gid_table_length(adapter.node()); index >= length) {
    return refuse(EINVAL, fmt::format("index {} is beyond the table of {}", index, length));
  }
  if (!is_in_use(adapter.port(port), index)) {
    return refuse(ENODATA, fmt::format("entry {} is empty", index));
  }
  return describe(*from(context).program, port, index);
}

}  // namespace

std::optional<std::uint8_t> gid_index_of(const port::Port& port, const Gid& gid,
                                         RoceVersion version) {
  const auto gids = port.gids();
  for (std::size_t i = 0; i < gids.size(); ++i) {
    const bool is_of_version = roce_version(gids[i].address) == version;
    if (is_of_version && port.gid(i) == gid) return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

int ibv_query_gid(ibv_context* context, std::uint8_t port_num, int index, ibv_gid* gid) {
  const auto entry = find(context, port_num, static_cast<std::uint32_t>(index));
  if (!entry && entry.error().code != ENODATA) return refused_minus_one("query_gid", entry.error());
  *gid = entry ? entry->gid : ibv_gid{};
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port_num, std::uint32_t gid_index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  if (flags != 0) {
    return refused("query_gid_ex", {EOPNOTSUPP, fmt::format("flags {:#x} are unknown", flags)});
  }
  const auto found = find(context, port_num, gid_index);
  if (!found && found.error().code == ENODATA)
    return ENODATA;  // Programs iterate over the table with this.
  if (!found) return refused("query_gid_ex", found.error());
  std::memset(entry, 0, entry_size);
  std::memcpy(entry, &*found, std::min(entry_size, sizeof *found));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max_entries,
                             std::uint32_t flags, std::size_t entry_size) {
  if (flags != 0) {
    return -refused("query_gid_table", {EOPNOTSUPP, fmt::format("flags {:#x} are unknown", flags)});
  }
  const auto in_use = entries_in_use(*from(context).program);
  const std::size_t count = in_use.size();
  if (max_entries < count) {
    return -refused(
        "query_gid_table",
        {EINVAL, fmt::format("room for {} entries, of which there are {}", max_entries, count)});
  }
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (const ibv_gid_entry& entry : in_use) {
    std::memset(to, 0, entry_size);
    std::memcpy(to, &entry, std::min(entry_size, sizeof entry));
    to += entry_size;
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                       ibv_gid_type_sysfs* type) {
  const auto entry = find(context, port_num, index);
  if (!entry && entry.error().code != ENODATA) {
    return refused_minus_one("query_gid_type", entry.error());
  }
  // For an empty entry /sys has no type; rdma-core returns this one, too.
  *type = entry && entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_GID_TYPE_SYSFS_ROCE_V2
                                                           : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
  return 0;
}
