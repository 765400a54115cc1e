#pragma once

#include <memory>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ulp/backstore/store.h"
#include "ulp/srp/service.h"

namespace verbatim::ulp::target {

struct SrpSettings {
  std::string port;        // Identifier; empty: no SRP.
  std::string initiators;  // Identifiers of their ports, with commas.
  std::string any = "no";
};

/// The SRP side of a process's target: one port with one unit.
class SrpPart {
 public:
  static constexpr std::uint32_t kChannels = 256;
  static constexpr std::uint32_t kPieces = kChannels * srp::Ports::kPiecesPerChannel;

  /// `memory`: registered, `kPieces` of `LogicalUnit::kMemoryBytes`.
  static Result<std::unique_ptr<SrpPart>> create(const SrpSettings& settings, storage::UnitId unit,
                                                 const backstore::Geometry& geometry,
                                                 std::span<const Slice> memory);

  storage::Service& service() { return service_; }
  nlohmann::json status() const;

 private:
  explicit SrpPart(std::span<const Slice> memory) : ports_({.channels = kChannels}, memory) {}

  std::unique_ptr<scsi::LogicalUnit> unit_;
  srp::Ports ports_;
  srp::Service service_{ports_};
};

}  // namespace verbatim::ulp::target
