#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "adapter/queue_pair/core/send_work.h"
#include "arena/arena.h"
#include "base/error.h"
#include "base/time.h"
#include "base/types.h"
#include "port/address_vector.h"
#include "port/route.h"
#include "region/region_table.h"
#include "wire/subnet/notice.h"

namespace verbatim::port {
class Ports;
}

namespace verbatim::adapter {

class PeerDirectory;
class Progress;
class SharedReceives;
class Steering;
class StreamSource;
class Task;

/// What the adapter gives its queue pairs of itself. All of it outlives them.
struct Surroundings {
  Arena& arena;
  region::RegionTable& regions;
  const port::Ports& ports;
  Progress& progress;
  PeerDirectory& peers;
  SharedReceives& shared_receives;
  const Steering& steering;                      // Sends raw packets.
  const std::unique_ptr<StreamSource>& streams;  // iWARP. Null before the first stream.
  /// Where an address vector leads, and how packets get to the queue pair there. EINVAL for one
  /// that leads nowhere, EHOSTUNREACH if no neighbour answers.
  std::function<Result<port::Route>(const port::AddressVector& vector, Qpn destination)> find_route;
  /// A pass runs the task after a link of the port takes packets again.
  std::function<void(Task& task, std::uint8_t port)> await_room;
  /// `InfinibandEnd::report_bad_key` of a port.
  std::function<void(std::uint8_t port, wire::TrapNumber trap, const wire::BadKeyDetails& details)>
      report_bad_key;
  bool is_iwarp = false;
  bool has_direct_path = false;
  bool only_direct = false;  // Nothing may take the wire (`Membership::only_direct`).
  TimeNs rnr_grace = 0;      // `Membership::rnr_grace`.
  bool probes = true;        // `Membership::probes`.
};

}  // namespace verbatim::adapter
