#include "fabric/data/shared_fabric.h"

#include <utility>

#include "fabric/data/walk/repair.h"

namespace verbatim::fabric {

Mover::Mover(SharedFabric& fabric, std::uint32_t index)
    : fabric_(fabric), index_(index), walker_(fabric.image_, fabric.policy_, index) {}

Mover::~Mover() { fabric_.movers_.leave(index_); }

Result<std::unique_ptr<SharedFabric>> SharedFabric::create(const Topology& topology,
                                                           const ImageOptions& options) {
  Result<Image> image = Image::create(topology, options);
  if (!image) return std::unexpected(std::move(image.error()));
  return std::unique_ptr<SharedFabric>(new SharedFabric(std::move(*image)));
}

Result<std::unique_ptr<SharedFabric>> SharedFabric::attach(int fd) {
  Result<Image> image = Image::attach(fd);
  if (!image) return std::unexpected(std::move(image.error()));
  return std::unique_ptr<SharedFabric>(new SharedFabric(std::move(*image)));
}

Result<std::unique_ptr<Mover>> SharedFabric::join(std::uint32_t end) {
  const Result<std::uint32_t> index = movers_.join(end);
  if (!index) return std::unexpected(index.error());
  return std::unique_ptr<Mover>(new Mover(*this, *index));
}

Result<std::uint32_t> SharedFabric::take_end(Mover& mover, PortPlace host) {
  const auto end = ends().take(host);
  if (!end) return end;
  // What waits for the host's only program so far may have waited too long.
  for (std::uint32_t other = 1; other < image_.extent().ends; ++other) {
    if (image_.end(other).host == image_.end(*end).host) mover.walker().start(image_.to_end(other));
  }
  return end;
}

void SharedFabric::bury_end(Mover& mover, std::uint32_t end) {
  if (end == 0 || image_.end(end).state.load() != EndRecord::kTaken) return;
  movers_.free_claims(end);
  const Ends all = ends();
  all.disconnect(end);
  mover.walker().with_link(image_.to_end(end), is_dead(), [&] { all.take_back(end); });
  mover.walker().start(image_.from_end(end));
  all.begin_draining(end);
  // Slots of other programs have been taken back, too.
  mover.walker().tell_all_programs();
}

void SharedFabric::reset_trunk(Mover& mover, std::uint32_t end) {
  const LinkIndex index = image_.to_end(end);
  mover.walker().with_link(index, is_dead(), [&] {
    ends().take_back(end);
    LinkRecord& link = image_.link(index);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      link.lanes[lane].freed_seen = link.lanes[lane].sent - image_.capacity(lane);
      link.freed[lane] = link.lanes[lane].freed_seen;
    }
  });
  mover.walker().tell_all_programs();  // Slots of programs have been freed.
}

std::uint32_t SharedFabric::repair(Mover& mover) {
  std::uint32_t links = 0;
  movers_.bury([&] { links = mover.walker().repair(is_dead()); });
  return links;
}

void SharedFabric::set_link_up(Mover& mover, std::uint32_t cable, bool is_up) {
  for (const bool from_b : {false, true}) {
    const LinkRecord& link = image_.link(image_.link_of_cable(cable, from_b));
    tables().set_cable(link.start, link.start_port, is_up);
  }
  for (const bool from_b : {false, true}) mover.walker().start(image_.link_of_cable(cable, from_b));
}

void SharedFabric::set_bit_error_rate(Mover& mover, std::uint32_t cable, double rate,
                                      std::uint64_t seed) {
  for (const bool from_b : {false, true}) {
    const LinkIndex index = image_.link_of_cable(cable, from_b);
    mover.walker().with_link(index, is_dead(), [&] {
      LinkRecord& link = image_.link(index);
      link.bit_errors = BitErrors(rate, seed + (from_b ? 1 : 0));
      CableTraits traits = link.cable.load();
      traits.has_bit_errors = rate != 0 ? 1 : 0;
      link.cable = traits;
    });
  }
}

/// Only the daemon changes traits.
void SharedFabric::set_watched(std::uint32_t cable, bool is_watched) {
  for (const bool from_b : {false, true}) {
    LinkRecord& link = image_.link(image_.link_of_cable(cable, from_b));
    CableTraits traits = link.cable.load();
    traits.is_watched = is_watched ? 1 : 0;
    link.cable = traits;
  }
}

void SharedFabric::set_port_state(Mover& mover, NodeIndex node, unsigned port,
                                  wire::PortState state) {
  tables().set_port_state(node, port, state);
  const PortRecord& record = image_.port(image_.node(node), port);
  mover.walker().start(record.out);
  mover.walker().start(record.in);
}

}  // namespace verbatim::fabric
