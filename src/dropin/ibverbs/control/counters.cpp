#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Counters objects: packets and bytes of the flow rules that name one
/// (IBV_FLOW_SPEC_ACTION_COUNT).
namespace verbatim::dropin {

ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* wanted) {
  if (wanted->comp_mask != 0) {
    return refused_null("create_counters",
                        {EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted->comp_mask)});
  }
  auto* const own = new Counters;
  own->verbs.context = context;
  return &own->verbs;
}

int destroy_counters(ibv_counters* counters) {
  Counters& own = from(counters);
  if (const auto rules = own.counter.use_count() - 1; rules != 0) {
    return refused("destroy_counters", {EBUSY, fmt::format("{} flow rules count with it", rules)});
  }
  delete &own;
  return 0;
}

/// As with other adapters, a counters object is bound to rules at their creation.
int attach_counters_point_flow(ibv_counters* counters, ibv_counter_attach_attr* wanted,
                               ibv_flow* flow) {
  const auto refuse = [](int code, std::string why) {
    return refused("attach_counters_point_flow", {code, std::move(why)});
  };
  if (wanted->comp_mask != 0) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted->comp_mask));
  }
  if (flow != nullptr) {
    return refuse(EOPNOTSUPP, "a rule names its counters when it is created, not later");
  }
  if (wanted->counter_desc != IBV_COUNTER_PACKETS && wanted->counter_desc != IBV_COUNTER_BYTES) {
    return refuse(EINVAL, fmt::format("counter description {} is unknown",
                                      static_cast<int>(wanted->counter_desc)));
  }
  Counters& own = from(counters);
  const std::lock_guard guard(own.lock);
  own.points.push_back({.index = wanted->index, .what = wanted->counter_desc});
  return 0;
}

/// Nothing is cached: reads the current values. Points with the same index are added up.
int read_counters(ibv_counters* counters, std::uint64_t* values, std::uint32_t count,
                  std::uint32_t flags) {
  if ((flags & ~std::uint32_t{IBV_READ_COUNTERS_ATTR_PREFER_CACHED}) != 0) {
    return refused("read_counters", {EINVAL, fmt::format("flags {:#x} are unknown", flags)});
  }
  Counters& own = from(counters);
  const std::lock_guard guard(own.lock);
  for (const Counters::Point& point : own.points) {
    if (point.index < count) continue;
    return refused("read_counters", {EINVAL, fmt::format("{} values are asked for, and a counter "
                                                         "is attached at index {}",
                                                         count, point.index)});
  }
  std::fill_n(values, count, 0);
  for (const Counters::Point& point : own.points) {
    const auto& from = point.what == IBV_COUNTER_BYTES ? own.counter->bytes : own.counter->frames;
    values[point.index] += from.load(std::memory_order_relaxed);
  }
  return 0;
}

}  // namespace verbatim::dropin
