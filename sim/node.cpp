#include "sim/node.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/ib/packet.h"

namespace verbatim::sim {

using transport::PayloadSource;
using transport::Slot;
using transport::Status;

namespace {

template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

}  // namespace

Node::Node(int index, std::size_t memory_bytes, std::uint32_t depth, Promise promise)
    : index_(index),
      memory_(memory_bytes),
      region_entries_(64),
      requester_(depth),
      locals_(depth),
      keys_(depth),
      deliveries_(promise) {
  region::RegionTable::initialise(region_header_, 0x5eed + static_cast<std::uint64_t>(index));
  regions_.emplace(region_header_, region_entries_);
  const auto key =
      regions_->add({.address = reinterpret_cast<std::uint64_t>(memory_.data()),
                     .length = memory_bytes,
                     .iova = kIova,
                     .access = region::kLocalWrite | region::kRemoteWrite | region::kRemoteRead |
                               region::kRemoteAtomic | region::kFlushGlobal | region::kMwBind,
                     .pd = kPd});
  VERBATIM_ASSERT(key.has_value());
  key_ = *key;
}

void Node::connect(const transport::RequesterConfig& requester,
                   const transport::ResponderConfig& responder) {
  requester_.reset();
  requester_.configure(requester);
  responder_.reset();
  responder_.configure(responder);
  qpn_ = responder.own_qp;
}

MemoryKey Node::make_window() {
  const auto window = regions_->add_window(region::EntryKind::window_2, kPd);
  VERBATIM_ASSERT(window.has_value());
  const auto bound = regions_->bind({.window = *window,
                                     .key = *window,
                                     .region = key_,
                                     .address = kIova,
                                     .length = memory_.size(),
                                     .access = region::kRemoteRead},
                                    {kPd, qpn_});
  VERBATIM_ASSERT(bound.has_value());
  return *window;
}

Slot Node::post(const transport::SendRequest& request, LocalBuffer local) {
  const Slot slot = requester_.post(request);
  locals_[slot % locals_.size()] = local;
  keys_[slot % keys_.size()] = request.remote_key;
  sends_.posted(slot);
  return slot;
}

void Node::post_receive(LocalBuffer buffer) { receives_.push_back({next_ticket_++, buffer}); }

std::optional<PdNumber> Node::domain_of(SrqNumber srq) {
  return srq == kSrq ? std::optional(kPd) : std::nullopt;
}

bool Node::take(const wire::Packet&, transport::Receive& out) {
  if (receives_.empty()) return false;
  taken_.push_back(receives_.front());
  receives_.pop_front();
  out = {taken_.back().ticket, taken_.back().buffer.length};
  return true;
}

bool Node::pump(TimeNs now, Network& network) {
  bool sent = false;
  transport::OutgoingPacket packet;
  while (responder_.poll_transmit(packet)) {
    sent = true;
    transmit(packet, now, network);
  }
  for (;;) {
    if (requester_.poll_transmit(now, packet)) {
      transmit(packet, now, network);
    } else if (const auto slot = requester_.poll_local()) {
      execute_local(*slot);
    } else {
      return sent;
    }
    sent = true;
    requester_.after_transmit(requester_effects_);
    drain(requester_effects_);
  }
}

void Node::transmit(const transport::OutgoingPacket& packet, TimeNs now, Network& network) {
  if (packet.payload.from == PayloadSource::From::request &&
      packet.payload.slot == bad_local_memory) {
    return fail_locally(packet.payload.slot);
  }
  bool refused = false;
  network.send(1 - index_, now, [&](std::vector<std::byte>& bytes) {
    bytes.resize(wire::kHeadersMaxBytes);
    bytes.resize(wire::encode_headers(packet.headers, bytes));
    refused = !append_payload(packet.payload, bytes);
    bytes.resize(bytes.size() + packet.headers.bth.pad_count);
  });
  ++packets_sent_;
  VERBATIM_ASSERT(!refused);
}

bool Node::append_payload(const PayloadSource& source, std::vector<std::byte>& bytes) {
  MutableByteSpan from;
  if (source.from == PayloadSource::From::request) {
    const LocalBuffer& local = locals_[source.slot % locals_.size()];
    VERBATIM_ASSERT(source.offset + source.length <= local.length);
    from = memory().subspan(local.offset + source.offset, source.length);
  } else if (source.from == PayloadSource::From::region && source.length > 0) {
    from = bytes_at(source.key, source.address, source.length);
    if (from.empty()) return false;
  }
  bytes.insert(bytes.end(), from.begin(), from.end());
  return true;
}

MutableByteSpan Node::bytes_at(MemoryKey key, std::uint64_t address, std::size_t length) {
  const auto hold = regions_->hold(key, address, length, 0, kPd);
  if (!hold) return {};
  return {hold->address(), length};
}

void Node::on_arrival(ByteSpan bytes, TimeNs now) {
  const auto packet = wire::decode_packet(bytes);
  VERBATIM_ASSERT(packet.has_value());
  if (in_error_) return;
  if (wire::info(packet->headers.bth.opcode).is_request) {
    transport::ResponderEffects effects;
    responder_.on_packet(*packet, *this, *regions_, effects);
    return drain(effects);
  }
  requester_.on_packet(*packet, now, requester_effects_);
  drain(requester_effects_);
}

void Node::on_time(TimeNs now) {
  if (requester_.deadline() > now) return;
  requester_.on_timeout(now, requester_effects_);
  drain(requester_effects_);
}

void Node::drain(transport::RequesterEffects& effects) {
  for (;;) {
    // A copy, because executing an effect may cause others.
    const transport::RequesterEffects now = effects;
    effects.list.clear();
    effects.more = false;
    for (const auto& effect : now.list) {
      std::visit(Match{[this](const transport::CompleteRequest& done) {
                         sends_.completed(done.slot, done.status);
                         if (on_completed) on_completed(done.slot, done.status);
                       },
                       [this](const transport::RequesterFailed&) { enter_error(); },
                       [this](const auto& placement) { place(placement); }},
                 effect);
    }
    if (!now.more) return;
    requester_.resume(effects);
  }
}

void Node::drain(const transport::ResponderEffects& effects) {
  for (const auto& effect : effects) {
    std::visit(Match{[this](const transport::CompleteReceive& done) { complete(done); },
                     [this](const transport::ExecuteAtomic& atomic) { execute(atomic); },
                     [this](const transport::ExecuteAtomicWrite& write) { execute(write); },
                     [this](const transport::ExecuteFlush&) { responder_.on_atomic_result(0); },
                     [this](const transport::InvalidateKey& invalidate) { execute(invalidate); },
                     [](const transport::Established&) {},
                     [this](const transport::ResponderFailed&) { enter_error(); },
                     [this](const auto& placement) { place(placement); }},
               effect);
  }
}

void Node::place(const transport::PlaceResponse& effect) {
  if (effect.slot == bad_local_memory) return fail_locally(effect.slot);
  const LocalBuffer& local = locals_[effect.slot % locals_.size()];
  VERBATIM_ASSERT(effect.offset + effect.payload.size() <= local.length);
  std::ranges::copy(effect.payload, memory().subspan(local.offset + effect.offset).begin());
}

void Node::place(const transport::PlaceAtomic& effect) {
  if (effect.slot == bad_local_memory) return fail_locally(effect.slot);
  const LocalBuffer& local = locals_[effect.slot % locals_.size()];
  VERBATIM_ASSERT(local.length == sizeof effect.original);
  std::memcpy(&memory_[local.offset], &effect.original, sizeof effect.original);
}

void Node::place(const transport::PlaceReceive& effect) {
  const auto receive = std::ranges::find(taken_, effect.ticket, &PostedReceive::ticket);
  VERBATIM_ASSERT(receive != taken_.end());
  VERBATIM_ASSERT(effect.offset + effect.payload.size() <= receive->buffer.length);
  std::ranges::copy(effect.payload,
                    memory().subspan(receive->buffer.offset + effect.offset).begin());
}

void Node::place(const transport::PlaceWrite& effect) {
  if (effect.payload.empty()) return;
  const MutableByteSpan to = bytes_at(effect.key, effect.address, effect.payload.size());
  VERBATIM_ASSERT(!to.empty());
  std::ranges::copy(effect.payload, to.begin());
}

void Node::execute(const transport::ExecuteAtomic& effect) {
  const MutableByteSpan word = bytes_at(effect.key, effect.address, 8);
  VERBATIM_ASSERT(!word.empty());
  std::uint64_t value = 0;
  std::memcpy(&value, word.data(), sizeof value);
  responder_.on_atomic_result(value);
  if (!effect.compare_and_swap) {
    value += effect.compare_add;
  } else if (value == effect.compare_add) {
    value = effect.swap;
  }
  std::memcpy(word.data(), &value, sizeof value);
}

void Node::execute(const transport::ExecuteAtomicWrite& effect) {
  const MutableByteSpan word = bytes_at(effect.key, effect.address, 8);
  VERBATIM_ASSERT(!word.empty());
  std::memcpy(word.data(), &effect.value, sizeof effect.value);
  responder_.on_atomic_result(0);
}

/// An invalidation that is executed twice finds no binding the second time.
void Node::execute(const transport::InvalidateKey& effect) {
  const bool invalidated = regions_->invalidate(effect.key, {kPd, qpn_}).has_value();
  VERBATIM_ASSERT(invalidated);
  const bool removed = regions_->remove_window(effect.key).has_value();
  VERBATIM_ASSERT(removed);
}

void Node::execute_local(Slot slot) {
  sends_.executed(slot);
  const MemoryKey key = keys_[slot % keys_.size()];
  if (key != MemoryKey{}) execute(transport::InvalidateKey{key});
}

void Node::complete(const transport::CompleteReceive& effect) {
  const auto receive = std::ranges::find(taken_, effect.ticket, &PostedReceive::ticket);
  VERBATIM_ASSERT(receive != taken_.end());
  if (effect.status == Status::success) {
    VERBATIM_ASSERT(effect.is_write || effect.byte_count <= receive->buffer.length);
    const std::size_t placed = effect.is_write ? 0 : effect.byte_count;
    deliveries_.received({.ticket = effect.ticket,
                          .is_write = effect.is_write,
                          .has_immediate = effect.has_immediate,
                          .immediate = effect.immediate,
                          .solicited = effect.solicited,
                          .invalidated = effect.invalidated_key,
                          .byte_count = effect.byte_count,
                          .bytes = memory().subspan(receive->buffer.offset, placed)});
  } else {
    receive_failures_.push_back(effect.status);
  }
  taken_.erase(receive);
}

void Node::fail_locally(Slot slot) {
  transport::RequesterEffects effects;
  requester_.on_local_error(slot, Status::local_protection_error, effects);
  drain(effects);
}

/// As in the adapter: the whole queue pair enters the error state.
void Node::enter_error() {
  in_error_ = true;
  transport::RequesterEffects effects;
  requester_.flush(effects);
  drain(effects);
}

}  // namespace verbatim::sim
