#include "ulp/iscsi/sessions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::iscsi {
namespace {

scsi::InitiatorPort port_of(const Sessions::Session& session) {
  const scsi::Port& at = session.target->port();
  return {.protocol = scsi::Protocol::iscsi,
          .name = session.initiator,
          .isid = session.isid,
          .target = fmt::format("{},t,0x{:04x}", at.device_name, at.tag),
          .target_id = at.id};
}

}  // namespace

Sessions::Sessions(const Limits& limits, std::span<const Slice> memory, Random random)
    : limits_(limits),
      memory_(memory),
      random_(std::move(random)),
      sessions_(limits.sessions),
      stash_memory_(
          std::make_unique_for_overwrite<std::byte[]>(std::size_t{limits.stashes} * kStashBytes)) {
  VERBATIM_ASSERT(memory_.size() >= limits_.sessions);
  for (std::uint32_t i = limits_.stashes; i-- > 0;)
    stashes_.push_back(&stash_memory_[std::size_t{i} * kStashBytes]);
}

Result<Target*> Sessions::add(Target target) {
  const auto is_same = [&](const auto& other) {
    return other->name() == target.name() && other->tag() == target.tag();
  };
  if (std::ranges::any_of(targets_, is_same))
    return refuse(EEXIST, fmt::format("there is a target {} already", target.name()));
  return targets_.emplace_back(std::make_shared<Target>(std::move(target))).get();
}

void Sessions::remove(Target& target) {
  auto settings = target.settings();
  settings.is_enabled = false;
  target.set(std::move(settings));
  refresh(target);
  std::erase_if(targets_, [&](const auto& one) { return one.get() == &target; });
}

void Sessions::refresh(Target& target) {
  for (const auto& session : sessions_) {
    if (session == nullptr || session->target.get() != &target) continue;
    if (!target.is_enabled() || !target.admits(session->initiator)) {
      session->connection->end(target.is_enabled() ? "the initiator is no longer admitted"
                                                   : "the target is no longer enabled");
      continue;
    }
    const scsi::LunMap& units = target.units_of(session->initiator);
    if (session->units == units) continue;
    const scsi::LunMap before = std::exchange(session->units, units);
    for (scsi::LogicalUnit* const unit : before.units()) unit->on_gone(session->nexus);
    for (scsi::LogicalUnit* const unit : units.units()) {
      unit->on_login(session->nexus, port_of(*session));
      unit->attentions().tell(session->nexus, scsi::Attention::luns_changed);
    }
  }
}

std::shared_ptr<Target> Sessions::find(std::string_view name, const SocketAddress& own) {
  const auto target = std::ranges::find_if(
      targets_, [&](const auto& one) { return one->name() == name && one->is_at(own); });
  return target == targets_.end() ? nullptr : *target;
}

Sessions::Session* Sessions::begin(std::string initiator, std::uint64_t isid,
                                   std::shared_ptr<Target> target, SessionConnection& connection) {
  const auto place = std::ranges::find_if(sessions_, [](const auto& one) { return !one; });
  if (place == sessions_.end()) return nullptr;
  const auto nexus = scsi::NexusId{static_cast<std::uint32_t>(place - sessions_.begin())};
  scsi::LunMap units = target->units_of(initiator);
  *place = std::make_unique<Session>(
      Session{std::move(initiator), isid, std::move(target), &connection, nexus, std::move(units)});
  for (scsi::LogicalUnit* const unit : (*place)->units.units())
    unit->on_login(nexus, port_of(**place));
  return place->get();
}

void Sessions::end(const Session& session) {
  for (scsi::LogicalUnit* const unit : session.units.units()) unit->on_gone(session.nexus);
  sessions_[raw(session.nexus)].reset();
}

const Sessions::Session* Sessions::find_same(const std::string& initiator, std::uint64_t isid,
                                             const Target& target) const {
  const auto same = std::ranges::find_if(sessions_, [&](const auto& one) {
    return one != nullptr && one->target.get() == &target && one->isid == isid &&
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
  const std::size_t begin = arena_bytes_;
  VERBATIM_ASSERT(begin + first.size() + second.size() + third.size() + fourth.size() <=
                  kHeaderArenaBytes);
  for (const ByteSpan part : {first, second, third, fourth}) {
    if (part.empty()) continue;
    std::memcpy(&arena_[arena_bytes_], part.data(), part.size());
    arena_bytes_ += part.size();
  }
  return {&arena_[begin], arena_bytes_ - begin};
}

}  // namespace verbatim::ulp::iscsi
