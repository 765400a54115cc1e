#include "fabric/data/image/audit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "fabric/data/image/gate.h"
#include "fabric/data/image/used_slots.h"

namespace verbatim::fabric {
namespace {

class Audit {
 public:
  explicit Audit(const Image& image) : image_(image) {}

  std::vector<std::string> run() {
    for_each_used_slot(image_, [this](Handle handle, const Slot& slot, Where where) {
      look_at_slot(handle, slot, where);
    });
    for (std::uint32_t end = 1; end < image_.extent().ends; ++end) {
      if (image_.end(end).generation.load() != 0) look_at_end(end);
    }
    for (LinkIndex link = 1; link < image_.extent().links; ++link) look_at_link(link);
    for (NodeIndex node = 1; node < image_.hub(); ++node) look_at_steering(node);
    return std::move(faults_);
  }

 private:
  template <typename... Words>
  void fault(LinkIndex index, fmt::format_string<Words...> format, Words&&... words) {
    const LinkRecord& link = image_.link(index);
    faults_.push_back(fmt::format("link {} from node {} port {} to node {} port {}: ", index,
                                  link.start, link.start_port, link.end, link.end_port) +
                      fmt::format(format, std::forward<Words>(words)...));
  }

  void look_at_slot(Handle handle, const Slot& slot, Where where) {
    switch (where.kind()) {
      case Where::kInBuffer:
      case Where::kInRing:
        blocks_inside_[where.link()][where.lane()] += slot.blocks;
        break;
      case Where::kClaimed:
        faults_.push_back(fmt::format("slot {} is claimed and has no packet", handle));
        break;
      default:
        break;
    }
  }

  void look_at_link(LinkIndex index) {
    const LinkRecord& link = image_.link(index);
    const Gate gate(link.gate.load());
    if (gate.owner() == 0 && (gate.has_news() || gate.newest() != 0)) {
      fault(index, "packets or news, which no mover has been told of");
    }
    look_at_credits(index, link);
    const TimeNs due = link.due_at.load();
    const bool is_timed = (image_.timed_links(index / 64).load() >> index % 64 & 1) != 0;
    if (is_timed != (due != 0)) fault(index, "its timer and its bit contradict each other");
    if (due != 0 && image_.header().earliest.load() > due) {
      fault(index, "nobody will look at its timer");
    }
    if (link.blocked_at != 0 && link.waiting == 0) {
      fault(index, "it counts a wait for credits, and has no packets");
    }
    const bool is_idle = gate.word() == 0 && due == 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) look_at_queue(index, link, lane, is_idle);
  }

  void look_at_credits(LinkIndex index, const LinkRecord& link) {
    // Beyond a trunk is another memory.
    if (image_.leads_to_end(index) && image_.is_trunk(image_.end_of(index))) return;
    const auto found = blocks_inside_.find(index);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t taken = link.lanes[lane].sent - link.freed[lane].load();
      const std::uint32_t inside = found == blocks_inside_.end() ? 0 : found->second[lane];
      if (taken == inside && taken <= image_.capacity(lane)) continue;
      fault(index, "lane {}: {} blocks are not free, {} are in the buffer", lane, taken, inside);
    }
  }

  /// `is_idle`: neither a mover nor a timer is to serve the link.
  void look_at_queue(LinkIndex index, const LinkRecord& link, unsigned lane, bool is_idle) {
    const Handle head = link.lanes[lane].head;
    if ((head != 0) != ((link.waiting >> lane & 1) != 0)) {
      fault(index, "lane {}: its queue and its bit contradict each other", lane);
    }
    if (head == 0 || !is_idle || !has_credit(link, lane, image_.slot(head).blocks)) return;
    if (image_.leads_to_end(index) && is_full(image_.ring(index))) return;
    fault(index, "lane {}: packets could leave, and nothing will start them", lane);
  }

  bool has_credit(const LinkRecord& link, unsigned lane, std::uint32_t blocks) const {
    const std::uint32_t limit = link.freed[lane].load() + image_.capacity(lane);
    return static_cast<std::int32_t>(limit - (link.lanes[lane].sent + blocks)) >= 0;
  }
  static bool is_full(const Ring& ring) { return ring.tail() - ring.head.load() >= kRingEntries; }

  void look_at_end(std::uint32_t end) {
    const EndRecord& record = image_.end(end);
    const LinkIndex index = image_.from_end(end);
    const LinkRecord& link = image_.link(index);
    const Ring& ring = image_.ring(index);
    const std::uint32_t head = ring.head.load();
    if (head != ring.tail() && link.gate.load() == 0) {
      const Slot& slot = image_.slot(ring.handles[head % kRingEntries].load());
      if (has_credit(link, slot.out_lane % kLanes, slot.blocks)) {
        fault(index, "the program's packets could leave, and nothing will start them");
      }
    }
    const bool has_slot = [&] {
      for (std::uint32_t i = 0; i < kSlotsOfAnEnd; ++i) {
        if (image_.slot(image_.first_slot_of(end) + i).where.load() == 0) return true;
      }
      return false;
    }();
    if (record.waits_for_slots.load() != 0 && record.has_credit_news.load() == 0 && has_slot &&
        record.state.load() == EndRecord::kTaken) {
      fault(index, "the program waits for a slot, and there is one");
    }
  }

  void look_at_steering(NodeIndex node) {
    const NodeRecord& host = image_.node(node);
    if (host.kind != RecordKind::host) return;
    for (std::size_t range = 0; range < kQpnRanges; ++range) {
      const std::uint8_t port = image_.host_tables(host).ports_by_qpn[range].load();
      if (port == 0) continue;
      const LinkIndex out = image_.port(host, port).out;
      if (image_.leads_to_end(out) &&
          image_.end(image_.end_of(out)).state.load() == EndRecord::kTaken) {
        continue;
      }
      faults_.push_back(
          fmt::format("node {}: queue pair numbers from {:#x} on lead to port {}, "
                      "which no program has",
                      node, range << kQpnRangeBits, port));
    }
  }

  const Image& image_;
  std::vector<std::string> faults_;
  std::unordered_map<LinkIndex, std::array<std::uint32_t, kLanes>> blocks_inside_;
};

}  // namespace

std::vector<std::string> audit(const Image& image) { return Audit(image).run(); }

}  // namespace verbatim::fabric
