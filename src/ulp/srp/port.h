#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ulp/scsi/task_set.h"
#include "ulp/srp/wire/login.h"
#include "ulp/srp/wire/message.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::srp {

class Channel;

/// A target port: its identifier, its units, and who may log in. Nobody may until one is admitted.
class Port final : public scsi::Units {
 public:
  static constexpr std::size_t kUnitsMax = 256;

  Port(const PortId& id, std::string name);

  void admit_any() { admits_any_ = true; }
  void admit(const PortId& initiator) { initiators_.insert(initiator); }
  void set_enabled(bool is_enabled) { is_enabled_ = is_enabled; }
  /// `number` is below 256. The unit outlives the port. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, scsi::LogicalUnit& unit);

  const PortId& id() const { return id_; }
  const scsi::Port& port() const { return port_; }
  bool is_enabled() const { return is_enabled_; }
  bool admits_any() const { return admits_any_; }
  bool admits(const PortId& initiator) const {
    return admits_any_ || initiators_.contains(initiator);
  }
  std::span<scsi::LogicalUnit* const> units() const { return units_; }

  scsi::LogicalUnit* find(scsi::Lun lun) override;
  std::span<const scsi::Lun> luns() const override { return luns_; }

 private:
  PortId id_;
  scsi::Port port_{.protocol = scsi::Protocol::srp};
  std::set<PortId> initiators_;
  bool is_enabled_ = true, admits_any_ = false;
  std::vector<scsi::Lun> luns_;
  std::vector<scsi::LogicalUnit*> units_;  // Of the same index.
};

/// What all channels of a process share: ports, sessions, and memory, all of it bounded.
/// A session is a pair of an initiator's and a target's port, with its channels.
class Ports final {
 public:
  /// Of registered memory: parameters, and a table of descriptors.
  static constexpr std::uint32_t kPiecesPerChannel = 2;

  struct Limits {
    std::uint32_t channels = 1024;
    std::uint32_t channels_per_session = 16;
    std::uint16_t requests = 64;         // Of a channel: what the initiator may send unanswered.
    std::uint32_t request_bytes = 8260;  // 8 KiB of immediate data behind a command, as Linux.
  };
  /// `memory`: pieces of `LogicalUnit::kMemoryBytes`, two for each channel.
  Ports(const Limits& limits, std::span<const Slice> memory);

  /// EEXIST: there is one of this identifier.
  Result<Port*> add(Port port);
  Port* find(const PortId& id);
  const std::deque<Port>& ports() const { return ports_; }
  const Limits& limits() const { return limits_; }

  struct Session {
    PortId initiator{};
    Port* port = nullptr;
    scsi::NexusId nexus{};
    bool is_replaced = false;
    std::vector<Channel*> channels;
  };
  /// By nexus; null: free.
  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }
  /// Null: there is none that goes on.
  Session* find_session(const PortId& initiator, const PortId& target) const;
  /// Requires a free place: a session has a channel.
  Session* begin_session(const PortId& initiator, Port& port);
  /// A channel's part of the memory.
  bool has_place() const { return !free_places_.empty(); }
  std::uint32_t take_place();
  std::span<const Slice> memory_of(std::uint32_t place) const {
    return memory_.subspan(std::size_t{place} * kPiecesPerChannel, kPiecesPerChannel);
  }
  /// The channel is destroyed.
  void end(Session& session, const Channel& channel, std::uint32_t place);

  /// Messages of one input: the driver has copied them before the next one.
  void clear_messages() { messages_.clear(); }
  ByteSpan add_message(const ResponseBytes& message);
  scsi::TaskOutput& task_output() { return task_output_; }

 private:
  const Limits limits_;
  const std::span<const Slice> memory_;
  std::deque<Port> ports_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::uint32_t> free_places_;  // Of memory.
  InplaceVector<ResponseBytes, WorkList::capacity()> messages_;
  scsi::TaskOutput task_output_;  // Empty between inputs.
};

}  // namespace verbatim::ulp::srp
