#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "ulp/nvmeof/controller.h"
#include "ulp/nvmeof/subsystem.h"

namespace verbatim::ulp::nvmeof {

/// Why Connect is refused: a status, what is wrong (`result`: bit 16 says that it is in the data;
/// the offset), and words.
struct ConnectRefusal {
  Status status{};
  std::uint32_t result = 0;
  std::string words;
};

/// All that a process shows to hosts of NVMe over Fabrics: subsystems, and the controllers that
/// hosts have of them. Its portals' queues share it.
class Target final {
 public:
  explicit Target(const Limits& limits) : limits_(limits) {}
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const Limits& limits() const { return limits_; }
  /// EEXIST: one has its NQN. It stays where it is.
  Result<Subsystem*> add(Subsystem subsystem);

  /// Its controllers end. It stays in memory until `forget_removed`, as long as queues know it.
  void remove(Subsystem& subsystem);
  void forget_removed();
  /// The subsystem's settings have changed: hosts that may not have it any more lose it.
  void refresh(const Subsystem& subsystem);

  /// A queue's Connect. The admin queue's makes a controller. `own`: the address that the host has
  /// used.
  std::expected<Controller*, ConnectRefusal> connect(const ConnectCommand& command,
                                                     const ConnectData& data,
                                                     const SocketAddress& own = {});
  /// The queue is over; with its last one the controller ends.
  void disconnect(Controller& controller, std::uint16_t queue);

  /// Controllers of these hosts have the notices, if they want them.
  void tell(const Subsystem& subsystem, std::uint32_t space,
            std::span<const ReservationNotice> notices);
  /// Called when sessions must look at their deadlines, because another one has changed something.
  void on_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  void wake() const {
    if (wake_ != nullptr) wake_();
  }

  /// What the host may have: its discovery log.
  std::vector<const Subsystem*> admitted(const std::string& host,
                                         const SocketAddress& own = {}) const;
  std::uint64_t generation() const { return generation_; }

  const std::vector<std::unique_ptr<Subsystem>>& subsystems() const { return subsystems_; }
  const std::map<std::uint16_t, std::unique_ptr<Controller>>& controllers() const {
    return controllers_;
  }

 private:
  using Connected = std::expected<Controller*, ConnectRefusal>;
  Connected connect_admin(const ConnectCommand& command, const ConnectData& data,
                          const SocketAddress& own);
  Connected connect_io(const ConnectCommand& command, const ConnectData& data);
  std::uint16_t free_id();
  void tell_discovery();

  const Limits limits_;
  std::vector<std::unique_ptr<Subsystem>> subsystems_, removed_;
  std::map<std::uint16_t, std::unique_ptr<Controller>> controllers_;
  std::uint16_t last_id_ = 0;
  std::uint64_t generation_ = 1;  // Of the discovery log.
  std::function<void()> wake_;
};

}  // namespace verbatim::ulp::nvmeof
