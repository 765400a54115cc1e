#include "ulp/iscsi/sessions.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::iscsi {

Sessions::Sessions(const Limits& limits, std::span<const Slice> memory, Random random)
    : limits_(limits),
      memory_(memory),
      random_(std::move(random)),
      sessions_(limits.sessions),
      stash_memory_(std::size_t{limits.stashes} * kStashBytes) {
  VERBATIM_ASSERT(memory_.size() >= limits_.sessions);
  for (std::uint32_t i = limits_.stashes; i-- > 0;)
    stashes_.push_back(&stash_memory_[std::size_t{i} * kStashBytes]);
  arena_.reserve(kHeaderArenaBytes);
}

Result<Target*> Sessions::add(Target target) {
  if (find(target.name()) != nullptr)
    return refuse(EEXIST, fmt::format("there is a target {} already", target.name()));
  return &targets_.emplace_back(std::move(target));
}

Target* Sessions::find(std::string_view name) {
  const auto target = std::ranges::find(targets_, name, &Target::name);
  return target == targets_.end() ? nullptr : &*target;
}

const Sessions::Session* Sessions::begin(std::string initiator, std::uint64_t isid, Target& target,
                                         Connection& connection) {
  const auto place = std::ranges::find_if(sessions_, [](const auto& one) { return !one; });
  if (place == sessions_.end()) return nullptr;
  const auto nexus = scsi::NexusId{static_cast<std::uint32_t>(place - sessions_.begin())};
  *place =
      std::make_unique<Session>(Session{std::move(initiator), isid, &target, &connection, nexus});
  for (scsi::LogicalUnit* const unit : target.units()) unit->on_login(nexus);
  return place->get();
}

void Sessions::end(const Session& session) {
  for (scsi::LogicalUnit* const unit : session.target->units()) unit->on_gone(session.nexus);
  sessions_[raw(session.nexus)].reset();
}

const Sessions::Session* Sessions::find_same(const std::string& initiator, std::uint64_t isid,
                                             const Target& target) const {
  const auto same = std::ranges::find_if(sessions_, [&](const auto& one) {
    return one != nullptr && one->target == &target && one->isid == isid &&
           one->initiator == initiator;
  });
  return same == sessions_.end() ? nullptr : same->get();
}

std::byte* Sessions::take_stash() {
  if (stashes_.empty()) return nullptr;
  std::byte* const stash = stashes_.back();
  stashes_.pop_back();
  return stash;
}

void Sessions::give_back_stash(std::byte* stash) {
  if (stash != nullptr) stashes_.push_back(stash);
}

ByteSpan Sessions::add_header(ByteSpan first, ByteSpan second, ByteSpan third, ByteSpan fourth) {
  const std::size_t begin = arena_.size();
  VERBATIM_ASSERT(begin + first.size() + second.size() + third.size() + fourth.size() <=
                  kHeaderArenaBytes);
  for (const ByteSpan part : {first, second, third, fourth})
    arena_.insert(arena_.end(), part.begin(), part.end());
  return ByteSpan(arena_).subspan(begin);
}

}  // namespace verbatim::ulp::iscsi
