#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "fabric/data/end.h"
#include "fabric/data/ends.h"
#include "fabric/data/image/image.h"
#include "fabric/data/walk/walker.h"

/// The same fabric in virtual time and in one thread: without gates, and packets take the time that
/// links and cables need. A run is the same each time.
namespace verbatim::fabric {

/// Events in the order of time, and of scheduling.
class VirtualPolicy {
 public:
  static constexpr bool kIsVirtual = true;
  struct Event {
    TimeNs at = 0;
    std::uint64_t order = 0;
    LinkIndex link = 0;
    Handle handle = 0;  // The packet that comes to the link; 0: the link has news.
    friend bool operator>(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  static void at(CrashPoint) {}
  TimeNs now() const { return now_; }
  void wake(std::uint32_t) {}
  /// What lies in the past happens now.
  void schedule(TimeNs at, LinkIndex link, Handle handle) {
    const Event event{
        .at = std::max(at, now_), .order = next_order_++, .link = link, .handle = handle};
    if (event.at == now_) {
      due_.push_back(event);
    } else {
      later_.push(event);
    }
  }
  /// The next event. Requires one.
  Event take() {
    const bool is_due = !due_.empty() && (later_.empty() || later_.top() > due_.front());
    const Event event = is_due ? due_.front() : later_.top();
    if (is_due) {
      due_.pop_front();
    } else {
      later_.pop();
    }
    return event;
  }

 private:
  friend class VirtualFabric;
  TimeNs now_ = 1;  // 0 means "not yet" in the image.
  std::uint64_t next_order_ = 0;
  std::deque<Event> due_;  // In their order; they need no heap.
  std::priority_queue<Event, std::vector<Event>, std::greater<>> later_;
};

class VirtualFabric {
 public:
  static Result<std::unique_ptr<VirtualFabric>> create(const Topology& topology,
                                                       const ImageOptions& options);
  const Image& image() const { return image_; }
  Ends ends() const { return Ends(image_); }
  /// For the ends' calls.
  Walker<VirtualPolicy>& walker() { return walker_; }
  TimeNs now() const { return policy_.now_; }

  /// When the next thing happens; kNever: nothing does.
  TimeNs next_event() const {
    if (!policy_.due_.empty()) return policy_.due_.front().at;
    return policy_.later_.empty() ? kNever : policy_.later_.top().at;
  }
  /// Moves the clock to the next event, which happens. Returns the end whose program may have
  /// something to receive, or to send, by it.
  std::optional<std::uint32_t> step();
  /// Moves the clock on. Requires that nothing happens before.
  void wait_until(TimeNs time);

 private:
  explicit VirtualFabric(Image image) : image_(std::move(image)) {}
  Image image_;
  VirtualPolicy policy_;
  Walker<VirtualPolicy> walker_{image_, policy_, 1};
};

}  // namespace verbatim::fabric
