#pragma once

#include <cstdint>

namespace verbatim::transport {

/// Values as `enum ibv_mig_state`.
enum class PathMigrationState : std::uint8_t { migrated = 0, rearm = 1, armed = 2 };

/// Automatic path migration of a connected queue pair (IBA 17.2.8). Both programs load an alternate
/// path and rearm. The bit M of each BTH (MigReq) tells a queue pair the state of its peer, so that
/// both are armed when each has seen that the other one has rearmed. Then the first one that cannot
/// go on by its path migrates, and its peer follows.
///
///                 program              packet without M
///     migrated ------------> rearm -----------------------> armed
///        ^                                                    |
///        +----- program, retries exhausted, packet with M ----+
///
/// A pure step.
class PathMigration {
 public:
  PathMigrationState state() const { return state_; }
  /// The bit M of packets that leave.
  bool sends_migrated() const { return state_ == PathMigrationState::migrated; }
  bool is_armed() const { return state_ == PathMigrationState::armed; }

  /// Returns false if a program cannot set the state now. To migrate is permitted in `migrated`,
  /// too, where it changes nothing.
  bool may_become(PathMigrationState wanted) const {
    if (wanted == PathMigrationState::migrated) return state_ != PathMigrationState::rearm;
    return wanted == PathMigrationState::rearm;
  }
  void rearm() { state_ = PathMigrationState::rearm; }
  /// The queue pair uses its alternate path from now on.
  void migrate() { state_ = PathMigrationState::migrated; }

  /// A packet of the peer has come. Returns true if the queue pair must follow it to the other
  /// path.
  bool on_packet(bool peer_has_migrated) {
    if (state_ == PathMigrationState::rearm && !peer_has_migrated) {
      state_ = PathMigrationState::armed;
    }
    return state_ == PathMigrationState::armed && peer_has_migrated;
  }

 private:
  PathMigrationState state_ = PathMigrationState::migrated;
};

}  // namespace verbatim::transport
