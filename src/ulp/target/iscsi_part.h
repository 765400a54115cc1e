#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ulp/backstore/store.h"
#include "ulp/iscsi/sessions.h"
#include "ulp/iscsi/tcp_connection.h"
#include "ulp/iser/connection.h"
#include "ulp/scsi/logical_unit.h"

namespace verbatim::ulp::target {

struct IscsiSettings {
  std::string name;        // IQN; empty: no iSCSI.
  std::string initiators;  // Names, with commas.
  std::string any = "no";
  std::string auth;  // A file.
};

/// "userid", "password", "userid_mutual" and "password_mutual", a line each with a value, as LIO
/// names them. EINVAL, and errors of opening it.
Result<iscsi::Authentication> read_authentication(const std::string& file);

/// The iSCSI side of a process's targets, over iSER and over TCP.
class IscsiPart {
 public:
  static constexpr std::uint32_t kSessions = 2048;

  /// `memory`: registered, a piece of `LogicalUnit::kMemoryBytes` for each session.
  explicit IscsiPart(std::span<const Slice> memory);
  /// A target with one unit.
  Result<void> add(const IscsiSettings& settings, storage::UnitId unit,
                   const backstore::Geometry& geometry);

  iscsi::Sessions& sessions() { return sessions_; }
  storage::Service& iser() { return iser_; }
  storage::Service& tcp() { return tcp_; }
  nlohmann::json status() const;

 private:
  iscsi::Sessions sessions_;
  iser::Service iser_{sessions_};
  iscsi::TcpService tcp_{sessions_};
  std::unique_ptr<scsi::LogicalUnit> unit_;
};

}  // namespace verbatim::ulp::target
