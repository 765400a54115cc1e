#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "ulp/scsi/lun_map.h"
#include "ulp/scsi/task_set.h"
#include "ulp/srp/wire/login.h"
#include "ulp/srp/wire/message.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::srp {

class Channel;

/// An initiator that a port admits, by a name that administrators give it: its port's 32
/// hexadecimal digits, with or without "0x"; its GUID's 16, in fours with colons; or the IP address
/// that it comes from.
struct Admitted {
  std::string name;
  std::optional<scsi::LunMap> units;  // Without them, the port's.
};
bool is_named(const std::string& name, const PortId& initiator, const SocketAddress& from);

/// Who may log in to a port, and what they see.
struct PortSettings {
  bool is_enabled = true;
  bool admits_any = false;  // Those without a name, too.
  std::vector<Admitted> initiators;
  scsi::LunMap units;
};

/// A target port. Nobody may log in until one is admitted.
class Port final {
 public:
  /// `number`: its relative identifier, which no other port of its units has.
  Port(const PortId& id, std::string name, std::uint16_t number = 1);

  /// `Ports::refresh` tells the sessions that are there.
  void set(PortSettings settings) { settings_ = std::move(settings); }
  void admit_any() { settings_.admits_any = true; }
  void admit(const PortId& initiator) { settings_.initiators.push_back({text_of(initiator), {}}); }
  void set_enabled(bool is_enabled) { settings_.is_enabled = is_enabled; }
  /// `number` is below 256. The unit outlives the port. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, scsi::LogicalUnit& unit) {
    return settings_.units.add(number, unit);
  }

  const PortId& id() const { return id_; }
  const scsi::Port& port() const { return port_; }
  const PortSettings& settings() const { return settings_; }
  bool is_enabled() const { return settings_.is_enabled; }
  bool admits_any() const { return settings_.admits_any; }
  /// Null: it is not admitted.
  const scsi::LunMap* units_of(const PortId& initiator, const SocketAddress& from) const;

 private:
  PortId id_;
  scsi::Port port_{.protocol = scsi::Protocol::srp};
  PortSettings settings_;
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
  /// Its sessions end.
  void remove(Port& port);
  /// The port's settings have changed: its sessions see its units as they are now, or end.
  void refresh(const Port& port);
  std::shared_ptr<Port> find(const PortId& id) const;
  const std::vector<std::shared_ptr<Port>>& ports() const { return ports_; }
  const Limits& limits() const { return limits_; }

  struct Session {
    PortId initiator{};
    SocketAddress from;          // Empty by the InfiniBand CM.
    std::shared_ptr<Port> port;  // Shared: it may be removed before its sessions have ended.
    scsi::LunMap units;
    scsi::NexusId nexus{};
    bool is_replaced = false;
    const char* ends_because = nullptr;  // Its channels end at the next look at their deadlines.
    std::vector<Channel*> channels;
  };
  /// By nexus; null: free.
  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }
  /// Null: there is none that goes on.
  Session* find_session(const PortId& initiator, const PortId& target) const;
  /// Requires a free place: a session has a channel.
  Session* begin_session(const PortId& initiator, const SocketAddress& from,
                         std::shared_ptr<Port> port);
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
  std::vector<std::shared_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::uint32_t> free_places_;  // Of memory.
  InplaceVector<ResponseBytes, WorkList::capacity()> messages_;
  scsi::TaskOutput task_output_;  // Empty between inputs.
};

}  // namespace verbatim::ulp::srp
