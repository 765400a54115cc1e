#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "adapter/direct/peers.h"
#include "arena/node.h"
#include "base/error.h"
#include "base/files/name_locks.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "port/port.h"
#include "port/roce_link.h"
#include "region/adoption/memory_file.h"
#include "wire/subnet/notice.h"

namespace verbatim::adapter {

/// On the direct path, so long a message that finds no receive request waits for one before it
/// counts as RNR. A card's message is on a cable and in its receiver's buffers meanwhile, and
/// leaves its receiver the time to post.
inline constexpr TimeNs kRnrGrace = 20 * kMillisecond;

/// A program's end of a fabric at one port of its host.
struct InfinibandEnd {
  Gid gid;  // Entry 0 of the port's table.
  std::unique_ptr<link::Link> link;
  port::LidRange lids;
  std::vector<PKey> pkeys;  // Empty: the default P_Key alone.
  /// Tells the port's subnet management agent about a packet whose P_Key or Q_Key does not match,
  /// for trap 257 or 258. Called with a queue pair's lock, so it does not block. May be empty.
  std::function<void(wire::TrapNumber, const wire::BadKeyDetails&)> report_bad_key;
};

/// A program's membership in its node: what it got from the agent (docs/design.md, 2).
struct Membership {
  arena::Node node;  // As it was when the program joined it; GIDs: see port::Port.
  Qpn first_qpn;     // Of the range of kProgramQueuePairsMax numbers.
  /// One for each GID, of its address: those of one address share it. Borrowed: they outlive the
  /// adapter. Over iWARP they are not used.
  std::vector<int> receive_sockets;
  /// The node's interface is a function of a card: no sockets then. Null: the kernel's.
  std::shared_ptr<port::NodeFunction> function;
  std::vector<InfinibandEnd> infiniband;  // One for each port. None: RoCE or iWARP, with one port.
  int event_fd = -1;               // Readable when the agent says something; -1: none. Not owned.
  std::function<void()> on_event;  // Called by the background thread then.
  /// Its doorbell, which its agent has as well, and how to ask for what is known so of the program
  /// that a queue pair number at an address is of.
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
  bool probes = true;  // `RequesterConfig::probes`.
};

/// Creates the memory file. Fails with the kernel's error.
Result<void> prepare_direct_path(Membership& membership);

}  // namespace verbatim::adapter
