#pragma once

#include <memory>
#include <memory_resource>

#include "adapter/queue_pair/core/queue_pair_attributes.h"
#include "adapter/queue_pair/core/queue_pair_state.h"
#include "adapter/queues/async_event.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/shared_receive_queue.h"
#include "arena/xrc_queue.h"
#include "base/types.h"

namespace verbatim::adapter {

struct ReceiveScaling;

/// What a queue pair is made with.
struct QueuePairOptions {
  QpType type = QpType::rc;
  PdNumber pd{};                          // None for an XRC target: the shared queues have theirs.
  CompletionQueue* send_cq = nullptr;     // None for an XRC target.
  CompletionQueue* receive_cq = nullptr;  // None for XRC.
  SharedReceiveQueue* shared_receive = nullptr;  // Instead of a receive queue of its own.
  XrcDomain xrc_domain{};                        // Of an XRC target.
  XrcFile xrc_file;          // Of the domain; the adapter fills it in, as it does the next.
  bool is_imported = false;  // Its protection domain is another program's.
  AsyncEvents* events = nullptr;
  QueuePairCapacity capacity;
  bool signal_all = false;
  bool ignores_own_multicast = false;  // UD: what it sends to a group that it is in itself.
  void* owner = nullptr;               // The drop-in's object; comes back in asynchronous events.
  /// Of the send queue, which nobody else touches. May call the program; may throw bad_alloc.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Raw packets: it only receives, and into the work queues of a table. Without completion queues.
  std::shared_ptr<const ReceiveScaling> scaling;

  bool is_connected() const { return type != QpType::ud && type != QpType::raw_packet; }
  bool is_reliable() const { return is_connected() && type != QpType::uc; }
  bool matches_tags() const { return shared_receive != nullptr && shared_receive->matches_tags(); }
  /// The send queue is the adapter's own: it finishes the rendezvous of tag matching with it. Asked
  /// for with a tag matching queue and no send requests, as cards have it.
  bool finishes_rendezvous() const { return matches_tags() && capacity.send_requests == 0; }
};

}  // namespace verbatim::adapter
