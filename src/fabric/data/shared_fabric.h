#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/types.h"
#include "fabric/data/end.h"
#include "fabric/data/ends.h"
#include "fabric/data/image/image.h"
#include "fabric/data/image/tables.h"
#include "fabric/data/movers.h"
#include "fabric/data/walk/walker.h"
#include "fabric/topology/topology.h"

/// The fabric that programs of one machine share: each runs the switches itself.
namespace verbatim::fabric {

class SharedFabric;

/// The calling thread's right to move packets. Destroyed by the same thread, before the fabric.
class Mover {
 public:
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  std::uint32_t index() const { return index_; }
  Walker<SharedPolicy>& walker() { return walker_; }

 private:
  friend class SharedFabric;
  Mover(SharedFabric& fabric, std::uint32_t index);
  SharedFabric& fabric_;
  const std::uint32_t index_;
  Walker<SharedPolicy> walker_;
};

class SharedFabric {
 public:
  static Result<std::unique_ptr<SharedFabric>> create(const Topology& topology,
                                                      const ImageOptions& options = {});
  /// `fd`: of `fd()` of the process that made it; stays the caller's.
  static Result<std::unique_ptr<SharedFabric>> attach(int fd);

  int fd() const { return image_.fd(); }
  const Image& image() const { return image_; }
  Tables tables() const { return Tables(image_); }
  /// Before any thread moves: what rings the doorbell of a sleeping program.
  void set_doorbells(SharedPolicy::Ring ring, void* context) {
    policy_.set_doorbells(ring, context);
  }

  /// For a thread of the program that has `end`. EAGAIN if too many threads move.
  Result<std::unique_ptr<Mover>> join(std::uint32_t end = 0);

  // Of the daemon, which knows what programs there are.

  Ends ends() const { return Ends(image_); }
  /// As `Ends::take`. A host's program that takes nothing is passed over from its second one on.
  Result<std::uint32_t> take_end(Mover& mover, PortPlace host);
  /// The program is no more. What it has handed over travels on; what comes for it is discarded.
  void bury_end(Mover& mover, std::uint32_t end);
  /// Repairs what dead threads have left. Returns how many links were theirs.
  std::uint32_t repair(Mover& mover);
  /// Of a trunk: what has not left yet is dropped, and nothing leaves until its peer frees credits.
  void reset_trunk(Mover& mover, std::uint32_t end);
  void set_link_up(Mover& mover, std::uint32_t cable, bool is_up);
  /// Both directions of the cable have bit errors from now on; 0: none. The
  /// same seed gives the same ones.
  void set_bit_error_rate(Mover& mover, std::uint32_t cable, double rate, std::uint64_t seed);
  /// What crosses the cable from now on goes to the image's tap, too.
  void set_watched(std::uint32_t cable, bool is_watched);
  /// The state of a node's port decides what its link lets pass.
  void set_port_state(Mover& mover, NodeIndex node, unsigned port, wire::PortState state);

 private:
  friend class Mover;
  explicit SharedFabric(Image image) : image_(std::move(image)), movers_(image_) {}
  auto is_dead() const {
    return [this](std::uint32_t mover) { return movers_.is_dead(mover); };
  }

  Image image_;
  SharedPolicy policy_;
  Movers movers_;
};

}  // namespace verbatim::fabric
