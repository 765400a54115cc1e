#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ulp/iscsi/login.h"
#include "ulp/iscsi/target.h"

namespace verbatim::ulp::iscsi {

/// What of a session's connection is told.
struct ConnectionFacts {
  SocketAddress peer;
  bool is_iser = false;
  std::uint16_t id = 0;
  std::uint32_t exp_cmd_sn = 0, max_cmd_sn = 0, stat_sn = 0;
};

/// The connection of a session, for those who know the session.
class SessionConnection {
 public:
  /// It ends at the next look at its deadline. `words`: why.
  virtual void end(std::string words) = 0;
  virtual ConnectionFacts facts() const = 0;

 protected:
  ~SessionConnection() = default;
};

/// What all connections of a process share: targets, sessions, and memory, all of it bounded.
class Sessions final : public TargetList {
 public:
  static constexpr std::uint32_t kHeaderArenaBytes = 64 << 10;
  /// Data that an initiator has sent unasked, a command each.
  static constexpr std::uint32_t kStashBytes = 8192;

  struct Limits {
    std::uint32_t sessions = 1024;
    std::uint16_t window = 64;     // Commands of a session.
    std::uint32_t stashes = 1024;  // Of all sessions; without one a command is answered BUSY.
    bool initial_r2t = true;       // No: up to FirstBurstLength comes in Data-Out PDUs, unasked.
  };
  /// `memory`: registered, `LogicalUnit::kMemoryBytes` for each session.
  Sessions(const Limits& limits, std::span<const Slice> memory, Random random);

  /// EEXIST: there is one of this name and portal group.
  Result<Target*> add(Target target);
  /// Its sessions end.
  void remove(Target& target);
  /// The target's settings have changed: its sessions see its units as they are now, or end.
  void refresh(Target& target);
  void set_discovery_authentication(Authentication wanted) { discovery_ = std::move(wanted); }

  std::shared_ptr<Target> find(std::string_view name, const SocketAddress& own) override;
  const Authentication& discovery_authentication() const override { return discovery_; }
  const Random& random() const override { return random_; }
  const std::vector<std::shared_ptr<Target>>& targets() const { return targets_; }
  const Limits& limits() const { return limits_; }

  /// A session, from its login until its connection is destroyed.
  struct Session {
    std::string initiator;
    std::uint64_t isid = 0;
    std::shared_ptr<Target> target;  // Shared: it may be removed before its sessions have ended.
    SessionConnection* connection = nullptr;
    scsi::NexusId nexus{};
    scsi::LunMap units;
    std::string alias{};  // As the initiator calls itself.
    std::uint16_t tsih() const { return static_cast<std::uint16_t>(raw(nexus) + 1); }
  };
  /// Null: there are as many as may be.
  Session* begin(std::string initiator, std::uint64_t isid, std::shared_ptr<Target> target,
                 SessionConnection& connection);
  void end(const Session& session);
  /// Of the same initiator port: it is reinstated (RFC 7143, section 6.3.5).
  const Session* find_same(const std::string& initiator, std::uint64_t isid,
                           const Target& target) const;
  std::span<const Slice> memory_of(const Session& session) const {
    return memory_.subspan(raw(session.nexus), 1);
  }
  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }

  std::byte* take_stash();
  void give_back_stash(std::byte* stash);
  std::uint32_t free_stashes() const { return static_cast<std::uint32_t>(stashes_.size()); }

  /// Headers of one input's messages: the driver has copied them before the next one.
  bool has_header_room() const { return arena_bytes_ + kHeaderBytesMax <= kHeaderArenaBytes; }
  void clear_headers() { arena_bytes_ = 0; }
  ByteSpan add_header(ByteSpan first, ByteSpan second, ByteSpan third, ByteSpan fourth = {});
  scsi::TaskOutput& task_output() { return task_output_; }

 private:
  static constexpr std::uint32_t kHeaderBytesMax = 8192 + 256;

  const Limits limits_;
  const std::span<const Slice> memory_;
  const Random random_;
  Authentication discovery_;
  std::vector<std::shared_ptr<Target>> targets_;
  std::vector<std::unique_ptr<Session>> sessions_;  // By nexus; null: free.
  std::unique_ptr<std::byte[]> stash_memory_;
  std::vector<std::byte*> stashes_;  // Free ones.
  std::unique_ptr<std::byte[]> arena_ = std::make_unique<std::byte[]>(kHeaderArenaBytes);
  std::size_t arena_bytes_ = 0;
  scsi::TaskOutput task_output_;  // Empty between inputs.
};

}  // namespace verbatim::ulp::iscsi
