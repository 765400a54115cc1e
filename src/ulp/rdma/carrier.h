#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "ulp/engine/meeting.h"
#include "ulp/engine/work.h"
#include "ulp/rdma/connection_id.h"

namespace verbatim::ulp::rdma {

/// What a `Handler` asks of whatever carries its connections: the adapter (`Driver`), or TCP
/// (`ulp/tcp`). None of it calls back from within.
class Carrier {
 public:
  virtual Result<void> accept(ConnectionId connection, const QueueSizes& sizes,
                              ByteSpan private_data) = 0;
  virtual void reject(ConnectionId connection, ByteSpan private_data) = 0;
  /// `words`: why, for `on_end`; "" in order.
  virtual void disconnect(ConnectionId connection, const std::string& words, TimeNs now) = 0;
  /// Work that no call of the handler has returned: after an answer of a store.
  virtual void carry_out(ConnectionId connection, std::span<const Work> work, TimeNs now) = 0;
  /// A receive that an engine has kept.
  virtual void post_again(ReceiveId receive) = 0;

 protected:
  ~Carrier() = default;
};

}  // namespace verbatim::ulp::rdma
