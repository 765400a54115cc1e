#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "ulp/nvmeof/io_queue.h"
#include "ulp/nvmeof/wire/identify_data.h"
#include "ulp/nvmeof/wire/log_pages.h"

namespace verbatim::ulp::nvmeof {

/// How groups of namespaces are reached by one port.
struct PortAccess {
  SocketAddress portal;
  std::map<std::uint32_t, AccessState> groups;
  friend bool operator==(const PortAccess&, const PortAccess&) = default;
};

/// Who may have a subsystem's namespaces, and where.
struct SubsystemSettings {
  bool admits_any_host = false;
  std::set<std::string> hosts;
  std::map<std::uint32_t, Namespace> spaces;
  std::map<std::uint32_t, Uuid> uuids;  // Of namespaces that have one of their own.
  std::vector<SocketAddress> portals;   // None: wherever hosts come.
  bool is_hidden = false;               // No host may have it: it is nowhere.
  std::vector<PortAccess> access;       // None: all groups are optimized, and none is told.
};

/// What hosts see under one NQN: namespaces, and who may have them. Nobody may until it says so.
class Subsystem final {
 public:
  /// EINVAL: `nqn` is no NQN ("nqn.2026-01.verbatim:disk").
  static Result<Subsystem> create(const std::string& nqn);

  const std::string& nqn() const { return nqn_; }
  /// 20 digits; the same whenever a subsystem of this NQN is created, as hosts expect that connect
  /// again. So are the UUIDs.
  const std::string& serial() const { return serial_; }

  /// `Target::refresh` tells the controllers that are there.
  void set(SubsystemSettings settings);
  /// By the last `set`.
  std::span<const std::uint32_t> changed_spaces() const { return changed_spaces_; }
  bool has_changed_access() const { return has_changed_access_; }
  void set_serial(const std::string& serial) { serial_ = serial; }
  void admit(const std::string& host) { settings_.hosts.insert(host); }
  void admit_any_host() { settings_.admits_any_host = true; }
  bool admits_any_host() const { return settings_.admits_any_host; }
  bool admits(const std::string& host) const {
    return !settings_.is_hidden && (settings_.admits_any_host || settings_.hosts.contains(host));
  }
  /// `own`: the address that a host has used.
  bool is_at(const SocketAddress& own) const;

  /// EEXIST: the id is taken; EINVAL: it is 0 or all ones.
  Result<void> add(std::uint32_t id, const Namespace& space);
  std::optional<Namespace> find(std::uint32_t id) const;
  /// Some namespace can be reserved.
  bool has_reservations() const { return !reservations_.empty(); }
  /// Of namespaces that cannot be reserved any more: nobody uses them.
  void forget_removed() { old_reservations_.clear(); }
  bool tells_access() const { return !settings_.access.empty(); }
  /// Of the port at `own`; null: its groups are all optimized.
  const PortAccess* access_at(const SocketAddress& own) const;
  std::uint64_t access_changes() const { return access_changes_; }
  static AccessState state_of(const PortAccess* port, std::uint32_t group);
  static constexpr std::uint32_t kAccessGroups = 128;
  Uuid uuid_of(std::uint32_t id) const;
  /// The ids above `id`, ascending.
  auto ids_after(std::uint32_t id) const {
    return std::ranges::subrange(settings_.spaces.upper_bound(id), settings_.spaces.end());
  }
  /// NN: the highest id there may be.
  static constexpr std::uint32_t kNamespacesMax = 1024;

 private:
  explicit Subsystem(const std::string& nqn);

  std::string nqn_;
  std::string serial_;
  void make_reservations();

  SubsystemSettings settings_;
  /// By namespace. Commands that are under way may know the old ones.
  std::map<std::uint32_t, std::unique_ptr<Reservations>> reservations_;
  std::vector<std::unique_ptr<Reservations>> old_reservations_;
  std::vector<std::uint32_t> changed_spaces_;
  bool has_changed_access_ = false;
  std::uint64_t access_changes_ = 0;
};

}  // namespace verbatim::ulp::nvmeof
