#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapter/direct/peers.h"
#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"
#include "port/port.h"
#include "region/adoption/memory_file.h"

namespace verbatim::adapter {

/// The program's node, as the agent describes it. GIDs may be added while it runs, the rest is
/// constant.
struct NodeDescription {
  std::string name;
  std::uint64_t guid = 0;  // Host byte order.
  MacAddress mac{};
  std::string interface;  // Name of the network interface behind the port, such as "lo".
  std::uint32_t interface_index = 0;
  RoceVersion version = RoceVersion::v2;  // Used by the communication manager.
  bool is_iwarp = false;                  // Only RC queue pairs, connected by `start_stream`.
  AppendOnlyList<GidEntry, kGidsMax> gids;
};

/// On the direct path a message without a receive request waits this long before it counts as RNR.
/// A card's message would be on the cable and in the receiver's buffers meanwhile, which gives the
/// receiver time to post.
inline constexpr TimeNs kRnrGrace = 20 * kMillisecond;

/// A program's membership in its node: what it got from the agent (docs/design.md, 2).
struct Membership {
  NodeDescription node;
  Qpn first_qpn;                     // Of kProgramQueuePairsMax numbers.
  std::vector<int> receive_sockets;  // Borrowed: they outlive the adapter.
  int event_fd = -1;  // Readable when the agent has sent a message; -1: none. Not owned.
  std::function<void()> on_event;  // Called by the background thread then.
  /// `doorbell`: eventfd that wakes this program's background thread; the agent gives copies to
  /// peers. `ask_for_peer(address, qpn)`: asks the agent at `address` for the arena, memory file
  /// and doorbell of the program that has `qpn`.
  UniqueFd doorbell;
  AskForPeer ask_for_peer;
  NameLocks locks;  // Among programs of this user and network namespace.
  /// The memory file, which the agent has, too; null if the program may not use the direct path.
  std::unique_ptr<region::MemoryFile> memory;
  /// VERBATIM_PATH=direct: an RC or UC queue pair that would need packets is refused RTS; a
  /// datagram that would need them completes with an error.
  bool only_direct = false;
  /// VERBATIM_BUSY_POLL: after packets arrive, the background thread polls this long before it
  /// sleeps again.
  TimeNs busy_poll = 0;
  TimeNs rnr_grace = kRnrGrace;
};

/// Creates the memory file. Fails with the kernel's error.
Result<void> prepare_direct_path(Membership& membership);

}  // namespace verbatim::adapter
