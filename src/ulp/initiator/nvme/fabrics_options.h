#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::ulp::initiator {

/// What a program writes to /dev/nvme-fabrics:
///
///     nqn=NQN,transport=rdma,traddr=IP,trsvcid=PORT,hostnqn=NQN,hostid=UUID,...
struct FabricsOptions {
  std::string subsystem, host, host_id;
  std::string address, service = "4420";  // As written.
  std::string host_address, host_interface;
  SocketAddress to;
  std::uint32_t queue_entries = 128;
  int keep_alive_s = 5;
  int reconnect_s = 10;
  int loss_s = 600;  // -1: waits for ever.
  bool may_repeat = false;
  bool is_discovery = false;

  /// What /sys has as `address`.
  std::string place() const;
};

/// EINVAL with words, as Linux refuses: unknown words and values, and what is missing.
Result<FabricsOptions> parse_fabrics_options(std::string_view text);

}  // namespace verbatim::ulp::initiator
