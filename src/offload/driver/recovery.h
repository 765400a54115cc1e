#pragma once

#include <memory>
#include <string>

#include "offload/driver/device.h"

namespace verbatim::offload::driver {

/// Watches a device's card. When it has ended, connects to the next one at the same socket, gives
/// it all rules under their handles, and asks for a reset of the ports: only their user can give
/// them new queues. A thread, which ends some time after this object: a user's lock may keep it.
class Recovery {
 public:
  Recovery(Device& device, const std::string& socket);
  /// The device is not touched any more.
  ~Recovery();
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace verbatim::offload::driver
