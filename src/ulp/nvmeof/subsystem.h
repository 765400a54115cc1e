#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>

#include "base/error.h"
#include "ulp/nvmeof/io_queue.h"
#include "ulp/nvmeof/wire/identify_data.h"

namespace verbatim::ulp::nvmeof {

/// What hosts see under one NQN: namespaces, and who may have them. Nobody may until it says so.
class Subsystem final : public Namespaces {
 public:
  /// EINVAL: `nqn` is no NQN ("nqn.2026-01.verbatim:disk").
  static Result<Subsystem> create(const std::string& nqn);

  const std::string& nqn() const { return nqn_; }
  /// 20 digits; the same whenever a subsystem of this NQN is created, as hosts expect that connect
  /// again. So are the UUIDs.
  const std::string& serial() const { return serial_; }

  void admit(const std::string& host) { hosts_.insert(host); }
  void admit_any_host() { admits_any_host_ = true; }
  bool admits_any_host() const { return admits_any_host_; }
  bool admits(const std::string& host) const { return admits_any_host_ || hosts_.contains(host); }

  /// EEXIST: the id is taken; EINVAL: it is 0 or all ones.
  Result<void> add(std::uint32_t id, const Namespace& space);
  std::optional<Namespace> find(std::uint32_t id) const override;
  Uuid uuid_of(std::uint32_t id) const;
  /// The ids above `id`, ascending.
  auto ids_after(std::uint32_t id) const {
    return std::ranges::subrange(spaces_.upper_bound(id), spaces_.end());
  }
  /// NN: the highest id there may be.
  static constexpr std::uint32_t kNamespacesMax = 1024;

 private:
  explicit Subsystem(const std::string& nqn);

  std::string nqn_;
  std::string serial_;
  std::set<std::string> hosts_;
  bool admits_any_host_ = false;
  std::map<std::uint32_t, Namespace> spaces_;
};

}  // namespace verbatim::ulp::nvmeof
