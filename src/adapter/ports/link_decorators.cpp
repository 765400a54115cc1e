#include "adapter/ports/link_decorators.h"

#include <algorithm>
#include <utility>

#include "adapter/progress/progress.h"
#include "base/log.h"

namespace verbatim::adapter {

Result<void> LinkDecorators::set_faults(std::string_view plan) {
  auto parsed = link::FaultPlan::parse(plan);
  if (!parsed) return std::unexpected(parsed.error());
  if (ports_.at(1).is_infiniband()) {
    if (auto checked = parsed->check_for_infiniband(); !checked) return checked;
  }
  const std::lock_guard guard(lock_);
  if (plan_ == *parsed) return {};  // The same packets go on to be the same.
  plan_ = *parsed;
  if (auto wrapped = wrap_links(); !wrapped) return wrapped;
  for (const auto& layers : layers_) layers->faults.set_plan(plan_);
  choose_tops();
  return {};
}

Result<int> LinkDecorators::start_capture(std::uint64_t capture) {
  const std::lock_guard guard(lock_);
  if (capture_ == capture) return ring_;
  auto ring = link::CaptureRing::create();
  if (!ring) return std::unexpected(ring.error());
  capture_ = capture;
  if (auto wrapped = wrap_links(); !wrapped) {
    capture_ = 0;
    return std::unexpected(wrapped.error());
  }
  ring_ = (*ring)->fd();
  tap_.set_ring(std::move(*ring));
  choose_tops();
  return ring_;
}

void LinkDecorators::stop_capture() {
  const std::lock_guard guard(lock_);
  capture_ = 0;
  choose_tops();
  tap_.set_ring(nullptr);
}

void LinkDecorators::follow_ports() {
  const std::lock_guard guard(lock_);
  if (layers_.empty()) return;
  if (const auto wrapped = wrap_links(); !wrapped) {
    log(LogLevel::warn, "packets of a new address are neither captured nor hit by faults: {}",
        wrapped.error().text);
  }
  choose_tops();
}

/// Decorates links that are not decorated yet, if faults or a capture need it.
Result<void> LinkDecorators::wrap_links() {
  if (plan_.is_off() && capture_ == 0) return {};
  for (const port::Port* const port : ports_) {
    if (auto wrapped = wrap_links(*port); !wrapped) return wrapped;
  }
  return {};
}

Result<void> LinkDecorators::wrap_links(const port::Port& port) {
  for (std::size_t i = 0; i < port.gids().size(); ++i) {
    link::Stack& links = port.links(i);
    const auto is_of = [&links](const auto& layers) { return &layers->links == &links; };
    if (std::ranges::any_of(layers_, is_of)) continue;  // GIDs of one address share its link.
    if (auto wrapped = wrap(links); !wrapped) return wrapped;
  }
  return {};
}

Result<void> LinkDecorators::wrap(link::Stack& links) {
  auto timer = TimerFd::create();
  if (!timer) return std::unexpected(timer.error());
  auto layers = std::make_unique<Layers>(links, tap_, counters_, std::move(*timer));
  layers->faults.set_plan(plan_);
  link::Faults& faults = layers->faults;
  if (auto watched = progress_.watch(faults.timer(), [&faults] { faults.send_due(); }); !watched) {
    return watched;
  }
  layers_.push_back(std::move(layers));
  return {};
}

void LinkDecorators::choose_tops() {
  for (const auto& layers : layers_) {
    if (!plan_.is_off()) {
      layers->links.set_top(layers->faults);
    } else if (capture_ != 0) {
      layers->links.set_top(layers->capture);
    } else {
      layers->links.set_top(layers->links.base());
    }
  }
}

}  // namespace verbatim::adapter
