#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/net/path.h"
#include "fabric/data/image/image.h"

/// Which programs there are: their links to hosts, and what hosts steer to them. Of the daemon, or
/// of whoever else plays its part; one thread.
namespace verbatim::fabric {

class Ends {
 public:
  explicit Ends(const Image& image) : image_(image) {}

  /// Takes an end for a program of a host's port. EINVAL if it is no such port; EAGAIN if the port
  /// or the fabric has no end left.
  Result<std::uint32_t> take(PortPlace host) const;
  /// Takes an end in the place of a cable: for a trunk. EINVAL if there is no such port; EBUSY if
  /// it has a cable; EAGAIN as `take`. Nothing passes until the port's state says so.
  Result<std::uint32_t> take_trunk(PortPlace place) const;
  bool is_steered(PortPlace host, std::uint32_t qpn_range) const;
  /// Packets for the range of 2^14 queue pair numbers come to this end.
  void steer(std::uint32_t end, std::uint32_t qpn_range) const;
  void set_member(std::uint32_t end, Lid group, bool is_member) const;

  /// Three steps of a program's end. Nothing is steered to it any more;
  void disconnect(std::uint32_t end) const;
  /// what it has not handed over, and not taken out, is dropped: requires the gate of the link to
  /// the end;
  void take_back(std::uint32_t end) const;
  /// and it can be taken again when its packets have arrived.
  void begin_draining(std::uint32_t end) const;

 private:
  Result<std::uint32_t> take_free(NodeIndex node, unsigned port, Passes passes) const;
  void limit_waiting(NodeIndex host) const;
  void connect(std::uint32_t end, NodeIndex node, std::uint8_t port, Passes passes) const;
  void free_drained() const;
  bool is_drained(std::uint32_t end) const;
  const Image& image_;
};

}  // namespace verbatim::fabric
