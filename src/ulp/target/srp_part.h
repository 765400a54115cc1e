#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/driver.h"
#include "ulp/srp/service.h"
#include "ulp/target/runner.h"
#include "ulp/target/scsi_memory.h"
#include "ulp/target/srp_fabric.h"

namespace verbatim::ulp::target {

struct SrpSettings {
  std::string ports;       // Identifiers, with commas, or "node"; empty: no SRP.
  std::string initiators;  // Identifiers of their ports, with commas.
  std::string any = "no";
};

/// The SRP side of a process's target: ports with their units, by options or of the tree, and where
/// initiators log in. It takes its memory with the first port.
class SrpPart {
 public:
  /// All of them outlive it; the runner has no session any more at its end.
  SrpPart(Runner& runner, rdma::Driver& driver, service::Loop& loop)
      : runner_(runner), driver_(driver), loop_(loop) {}

  /// The ports that options name, each with one unit.
  Result<void> add(const SrpSettings& settings, storage::UnitId unit,
                   const backstore::Geometry& geometry);
  Result<srp::Port*> add(srp::Port port);
  void remove(srp::Port& port);
  /// The port has other settings now.
  void refresh(const srp::Port& port) { ports_->refresh(port); }

  /// By rdma_cm.
  Result<void> listen(const SocketAddress& address);
  void unlisten(const SocketAddress& address);

  void add_places(std::vector<std::string>& places) const;
  nlohmann::json status() const;

 private:
  static constexpr std::uint32_t kChannels = 2048;
  static constexpr std::uint32_t kPieces = kChannels * srp::Ports::kPiecesPerChannel;

  Result<void> open();
  /// On a fabric: ports are found there as long as there is one.
  Result<void> show();
  void hide();
  std::uint64_t service_number() const { return driver_.device().guid(); }

  Runner& runner_;
  rdma::Driver& driver_;
  service::Loop& loop_;
  ScsiMemory memory_;
  std::vector<std::unique_ptr<scsi::LogicalUnit>> units_;  // Of the ports that options name.
  std::optional<srp::Ports> ports_;
  std::optional<srp::Service> service_;
  std::map<std::string, rdma::ListenerId> listeners_;  // By address.
  std::optional<rdma::ListenerId> by_service_;
  std::unique_ptr<SrpFabric> fabric_;
};

}  // namespace verbatim::ulp::target
