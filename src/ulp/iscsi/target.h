#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "ulp/iscsi/chap.h"
#include "ulp/scsi/lun_map.h"

namespace verbatim::ulp::iscsi {

/// An initiator that a target has an entry for.
struct Initiator {
  std::optional<Authentication> own;  // Without it, the target's holds.
  std::optional<scsi::LunMap> units;  // Likewise.
};

/// Who may log in to a target, where, and what they see.
struct TargetSettings {
  bool is_enabled = true;
  bool admits_any = false;       // Those without an entry, too.
  bool is_shown_to_any = false;  // Discovery tells of it whoever asks.
  Authentication authentication;
  std::map<std::string, Initiator> initiators;
  scsi::LunMap units;
  std::vector<SocketAddress> portals;  // None: wherever initiators come.
};

/// One target, or one of its portal groups. Nobody may log in until one is admitted.
class Target final {
 public:
  /// `port`: its relative identifier, which no other port of its units has. EINVAL: no iSCSI name.
  static Result<Target> create(const std::string& name, std::uint16_t tag = 1,
                               std::uint16_t port = 1);

  /// `Sessions::refresh` tells the sessions that are there.
  void set(TargetSettings settings) { settings_ = std::move(settings); }

  /// Of those who have no entry of their own.
  void set_authentication(Authentication wanted) { settings_.authentication = std::move(wanted); }
  void admit_any() { settings_.admits_any = true; }
  /// EINVAL: no iSCSI name. Without `own`, the target's authentication holds.
  Result<void> admit(const std::string& initiator, std::optional<Authentication> own = {});
  /// `number` is below 256. The unit outlives the target. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, scsi::LogicalUnit& unit);

  const std::string& name() const { return port_.device_name; }
  std::uint16_t tag() const { return port_.tag; }
  const scsi::Port& port() const { return port_; }
  bool is_enabled() const { return settings_.is_enabled; }
  bool admits_any() const { return settings_.admits_any; }
  bool admits(const std::string& initiator) const;
  bool is_shown_to(const std::string& initiator) const;
  /// `own`: the address that an initiator has used.
  bool is_at(const SocketAddress& own) const;
  /// What discovery tells an initiator that has used `own`: the portals, that of any address as
  /// `own`.
  std::vector<SocketAddress> addresses_for(const SocketAddress& own) const;
  const Authentication& authentication_of(const std::string& initiator) const;
  const scsi::LunMap& units_of(const std::string& initiator) const;
  const TargetSettings& settings() const { return settings_; }

 private:
  scsi::Port port_{.protocol = scsi::Protocol::iscsi};
  TargetSettings settings_;
};

}  // namespace verbatim::ulp::iscsi
