#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "adapter/direct/peers.h"
#include "arena/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "port/port.h"
#include "region/adoption/memory_file.h"

namespace verbatim::adapter {

/// On the direct path, so long a message that finds no receive request waits for one before it
/// counts as RNR. A card's message is on a cable and in its receiver's buffers meanwhile, and
/// leaves its receiver the time to post.
inline constexpr TimeNs kRnrGrace = 20 * kMillisecond;

/// A program's place in its node: what the agent gave it (docs/design.md, 2).
struct Membership {
  arena::Node node;  // As it was when the program joined it; GIDs: see port::Port.
  Qpn first_qpn;     // Of the range of kProgramQueuePairsMax numbers.
  /// One for each GID, of its address: those of one address share it. Borrowed: they outlive the
  /// adapter. Over iWARP they are not used.
  std::vector<int> receive_sockets;
  /// The link of an InfiniBand port, whose GIDs have no address; null: RoCE or iWARP.
  std::unique_ptr<link::Link> infiniband;
  port::LidRange lids;
  std::vector<PKey> pkeys;         // Empty: the default P_Key alone.
  int event_fd = -1;               // Readable when the agent says something; -1: none. Not owned.
  std::function<void()> on_event;  // Called by the background thread then.
  /// Its doorbell, which its agent has as well, and how to ask for what is known so of the program
  /// that a queue pair number at an address is of.
  UniqueFd doorbell;
  AskForPeer ask_for_peer;
  NameLocks locks;  // Between programs of this user and network namespace.
  /// The direct path, if the program may take it: its memory file, which its agent has, too.
  std::unique_ptr<region::MemoryFile> memory;
  /// RC and UC queue pairs that would need the wire do not get to RTS; datagrams fail that would.
  bool only_direct = false;
  /// So long after packets have come the background thread looks for others without sleeping.
  TimeNs busy_poll = 0;
  TimeNs rnr_grace = kRnrGrace;
};

/// Makes the memory file. What the kernel says where it refuses.
Result<void> prepare_direct_path(Membership& membership);

}  // namespace verbatim::adapter
