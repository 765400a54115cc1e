#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "link/ethernet/function_port.h"

namespace verbatim::link {

/// What a program of a node on a function needs to know of it.
struct FunctionPlace {
  FunctionName name;
  std::uint32_t qpn_range = 0;   // The upper bits of the program's queue pair numbers,
  std::uint32_t qpn_shift = 24;  // and which.
  /// It answers who asks for the node's addresses: the agent does.
  bool answers = false;
};

/// What the RoCE links of a program on a function share: one way to the function for each version,
/// and the neighbours' MACs.
class NodeFunction {
 public:
  static constexpr std::size_t kLinksMax = 32;
  /// The links of one RoCE version.
  struct Share {
    std::unique_ptr<FunctionPort> port;
    /// The node's, of its links: added while the first link receives.
    AppendOnlyList<SocketAddress, kLinksMax> addresses;
    std::vector<Gid> groups;  // Joined; changed between passes.
    bool answers = false;
  };

  explicit NodeFunction(FunctionPlace place) : place_(std::move(place)) {}

  /// Returns what the links of that version share, with one more address. The first one opens the
  /// way to the function, and receives for all. Errors as FunctionPort::open; ENOSPC.
  Result<Share*> share(const SocketAddress& address);

  /// The MAC of another node or host on this Ethernet. Asks, and waits for the answer for
  /// `patience`; by default for a moment, where the last question was answered. EHOSTUNREACH.
  Result<MacAddress> find(const SocketAddress& own, const SocketAddress& destination,
                          std::optional<TimeNs> patience);

 private:
  struct Known {
    MacAddress mac;
    TimeNs until;
  };
  std::optional<MacAddress> known(const SocketAddress& destination);

  const FunctionPlace place_;
  std::array<Share, 2> shares_;  // By version.
  bool has_answerer_ = false;
  std::mutex mutex_;  // Guards the members below.
  std::map<std::array<std::uint8_t, 16>, Known> neighbours_;
  TimeNs no_wait_until_ = 0;
};

/// What a function's interface would have.
struct FunctionFacts {
  MacAddress mac{};
  std::uint32_t mtu = 0;
};
/// As FunctionClient::join.
Result<FunctionFacts> look_at(const FunctionName& name);

/// Asks by a way of its own to the function: it disturbs nobody who receives. Answers who asks for
/// `own` meanwhile, and learns from who does.
Result<MacAddress> ask_neighbour(const FunctionName& name, const SocketAddress& own,
                                 const SocketAddress& destination, TimeNs patience);

}  // namespace verbatim::link
