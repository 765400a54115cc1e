#pragma once

#include <optional>

#include "adapter/direct/mapped_target.h"
#include "adapter/queue_pair/core/core.h"
#include "adapter/queue_pair/core/direct_end.h"
#include "adapter/services/effects.h"
#include "port/burst.h"
#include "transport/effects.h"
#include "transport/ib/responder/responder.h"
#include "transport/work.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter::services {

/// An XRC target whose requests name queues of other programs of the node (xrc_queue_owners.h):
/// what packets ask is done in their memory.
class XrcTarget {
 public:
  XrcTarget(QueuePairCore& core, DirectEnd& direct, transport::Responder& responder)
      : core_(core), direct_(direct), responder_(responder) {}

  /// Returns false if the packet names no queue of another program.
  bool on_packet(const wire::Packet& packet);
  /// Appends the bytes of a READ response. Returns false if the other program's memory refuses.
  bool append(port::Burst& burst, const transport::PayloadSource& payload);

 private:
  std::optional<Refused> carry_out_there(MappedTarget& owner,
                                         const transport::ResponderEffect& effect);
  void complete_receive(MappedTarget& owner, const transport::CompleteReceive& receive);

  QueuePairCore& core_;
  DirectEnd& direct_;
  transport::Responder& responder_;
};

}  // namespace verbatim::adapter::services
