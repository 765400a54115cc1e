#include "offload/card/function/ring_function.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::offload {
namespace {

/// Frames for the function itself that a read passes on before it looks for one that leaves it.
constexpr std::size_t kLooksMax = 64;
/// Of a RoCE packet: all that the switch may look at (`owner_of`: no options, no tag).
constexpr std::size_t kHeadBytes = 128;
/// It pays to leave the rest of a larger frame where it is.
constexpr std::size_t kWholeMax = 512;

/// FNV-1a: the same in every release.
std::array<std::uint8_t, 6> mac_from(const std::string& seed) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : seed) hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
  // Locally administered; the second byte tells it from a node's own invention (synthetic_mac).
  std::array<std::uint8_t, 6> mac{0x02, 0x56};
  for (std::size_t i = 2; i < mac.size(); ++i) mac[i] = static_cast<std::uint8_t>(hash >> 8 * i);
  return mac;
}

/// Copies a client's frame, before anything is looked at; returns what may stay where it is. No
/// decision needs the payload of a RoCE packet, which its receiver checks (ICRC).
ByteSpan copy_from(ByteSpan frame, MutableByteSpan room) {
  const std::size_t head = frame.size() > kWholeMax ? kHeadBytes : frame.size();
  std::memcpy(room.data(), frame.data(), head);
  const ByteSpan rest = frame.subspan(head);
  if (rest.empty()) return rest;
  const auto use = wire::owner_of(room.first(head)).use;
  if (use == wire::FrameUse::roce_v1 || use == wire::FrameUse::roce_v2) return rest;
  std::memcpy(room.data() + head, rest.data(), rest.size());
  return {};
}

bool is_group(ByteSpan frame) { return (std::to_integer<unsigned>(frame.front()) & 1u) != 0; }

}  // namespace

RingFunction::RingFunction(std::string name, const std::string& seed)
    : name_(std::move(name)),
      mac_(mac_from(seed)),
      packet_(std::make_unique<std::array<std::byte, VNIC_FUNCTION_FRAME_MAX>>()) {}

int RingFunction::set_mac(std::span<const std::uint8_t, 6> mac) {
  std::ranges::copy(mac, mac_.begin());
  return 0;
}

int RingFunction::set_carrier(bool is_up) {
  is_wanted_up_ = is_up;
  say_link();
  return 0;
}

void RingFunction::say_link() {
  for (const auto& member : members_) member->say_link(link_is_up());
}

Result<FunctionMember*> RingFunction::join(int socket, const vnic_join& join) {
  if (members_.size() == VNIC_FUNCTION_CLIENTS_MAX) {
    return refuse(ENOSPC, fmt::format("function {} has {} clients already", name_,
                                      VNIC_FUNCTION_CLIENTS_MAX));
  }
  auto made = FunctionMember::create(socket, join);
  if (!made) return std::unexpected(made.error());
  FunctionMember* const member = members_.emplace_back(std::move(*made)).get();
  say_link();
  return member;
}

FunctionMember* RingFunction::find(int socket) const {
  const auto found = std::ranges::find(members_, socket, &FunctionMember::socket);
  return found == members_.end() ? nullptr : found->get();
}

void RingFunction::leave(int socket) {
  std::erase_if(members_, [&](const auto& member) { return member->socket() == socket; });
}

std::size_t RingFunction::read(MutableByteSpan room, ByteSpan& rest) {
  std::size_t empty = 0;
  for (std::size_t looks = 0; looks < kLooksMax && empty < members_.size(); ++looks) {
    FunctionMember& member = *members_[next_++ % members_.size()];
    ByteSpan frame;
    if (!member.take(frame)) {
      ++empty;
      continue;
    }
    empty = 0;
    if (frame.size() < sizeof mac_ || !link_is_up()) continue;
    rest = copy_from(frame, room);
    const ByteSpan head = room.first(frame.size() - rest.size());
    const bool is_own = std::memcmp(head.data(), mac_.data(), mac_.size()) == 0;
    if (is_own || is_group(head)) deliver(head, rest);
    if (!is_own) return frame.size();
  }
  return 0;
}

bool RingFunction::write(ByteSpan head, ByteSpan rest, const FrameNote& note) {
  if (!link_is_up()) return false;
  if (note.is_plain()) return deliver(head, rest);
  auto segments = Segments::of(head, note);  // An interface's: it is whole.
  bool is_taken = segments.has_value();
  while (segments) {
    const std::size_t size = segments->next(*packet_);
    if (size == 0) break;
    is_taken &= deliver(ByteSpan(*packet_).first(size), {});
  }
  return is_taken;
}

bool RingFunction::deliver(ByteSpan head, ByteSpan rest) {
  const wire::FrameOwner owner = wire::owner_of(head);
  bool is_taken = false;
  for (const auto& member : members_) {
    if (member->wants(owner)) is_taken |= member->deliver(head, rest);
  }
  return is_taken;
}

void RingFunction::publish() {
  for (const auto& member : members_) member->publish();
}

void RingFunction::say_asleep(bool asleep) {
  for (const auto& member : members_) member->say_asleep(asleep);
}

bool RingFunction::has_work() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member->has_work(); });
}

void RingFunction::wake_members() {
  for (const auto& member : members_) member->wake();
}

}  // namespace verbatim::offload
