#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ulp/backstore/store.h"
#include "ulp/srp/service.h"

namespace verbatim::ulp::target {

struct SrpSettings {
  std::string ports;       // Identifiers, with commas, or "node"; empty: no SRP.
  std::string initiators;  // Identifiers of their ports, with commas.
  std::string any = "no";
};

/// The SRP side of a process's target: ports, each with one unit.
class SrpPart {
 public:
  static constexpr std::uint32_t kChannels = 256;
  static constexpr std::uint32_t kPieces = kChannels * srp::Ports::kPiecesPerChannel;

  /// `guid`: of the node, for the port "node". `memory`: registered, `kPieces` of
  /// `LogicalUnit::kMemoryBytes`.
  static Result<std::unique_ptr<SrpPart>> create(const SrpSettings& settings, std::uint64_t guid,
                                                 storage::UnitId unit,
                                                 const backstore::Geometry& geometry,
                                                 std::span<const Slice> memory);

  storage::Service& service() { return service_; }
  srp::Ports& ports() { return ports_; }
  nlohmann::json status() const;

 private:
  explicit SrpPart(std::span<const Slice> memory) : ports_({.channels = kChannels}, memory) {}

  Result<void> add_port(const srp::PortId& id, const SrpSettings& settings, storage::UnitId unit,
                        const backstore::Geometry& geometry);

  std::vector<std::unique_ptr<scsi::LogicalUnit>> units_;
  srp::Ports ports_;
  srp::Service service_{ports_};
};

}  // namespace verbatim::ulp::target
