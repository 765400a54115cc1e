#include "ulp/disk/vhost/device.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verbatim::ulp::disk::vhost {
namespace {

constexpr std::uint64_t kIndexMask = 0xff, kNoDescriptor = 1 << 8;
/// What changes how a ring is read, and is not offered: indirect descriptors, event indices, an
/// IOMMU, packed rings. Others, as that a ring can be reset, are between guest and frontend.
constexpr std::uint64_t kOtherRings = 1ULL << 28 | 1ULL << 29 | 1ULL << 33 | 1ULL << 34;

std::uint32_t index_of(const Message& message) {
  if (const auto* const state = std::get_if<VringState>(&message.body)) return state->index;
  if (const auto* const address = std::get_if<VringAddress>(&message.body)) return address->index;
  return 0;
}

}  // namespace

Result<Bytes> Device::on_message(const Message& message, std::span<UniqueFd> descriptors) {
  has_frontend_ = true;
  auto reply = carry_out(message, descriptors);
  pump();
  return reply;
}

Result<Bytes> Device::carry_out(const Message& message, std::span<UniqueFd> descriptors) {
  const Request request = message.header.request;
  if (index_of(message) != 0)
    return refuse(EINVAL, fmt::format("ring {}: there is one, 0", index_of(message)));
  switch (request) {
    case Request::get_features:
      return encode_reply(request, features_of(facts_));
    case Request::get_protocol_features:
      return encode_reply(request, kOurProtocolFeatures);
    case Request::get_queue_num:
      return encode_reply(request, std::uint64_t{1});
    case Request::get_config:
      return config(std::get<ConfigAccess>(message.body));
    case Request::get_vring_base:
      is_stopping_ = true;
      return Bytes{};
    default:
      break;
  }
  const auto done = set(message, descriptors);
  const bool has_reply = message.header.needs_reply && (protocol_features_ & kReplyAck) != 0;
  if (!done && !has_reply) return std::unexpected(done.error());
  if (!done) outside_.tell(done.error().text);
  return has_reply ? encode_reply(request, std::uint64_t{done ? 0U : 1U}) : Bytes{};
}

Result<void> Device::set(const Message& message, std::span<UniqueFd> descriptors) {
  const Request request = message.header.request;
  switch (request) {
    case Request::set_features:
      features_ = std::get<std::uint64_t>(message.body);
      if ((features_ & kOtherRings) != 0)
        return refuse(EINVAL, fmt::format("features {:#x} are taken of {:#x}", features_,
                                          features_of(facts_)));
      is_enabled_ = is_enabled_ || (features_ & kProtocolFeatures) == 0;
      return {};
    case Request::set_protocol_features:
      protocol_features_ = std::get<std::uint64_t>(message.body);
      return {};
    case Request::set_mem_table: {
      auto memory = GuestMemory::map(std::get<MemoryTable>(message.body), descriptors);
      if (!memory) return std::unexpected(memory.error());
      memory_ = std::move(*memory);
      ring_.end();
      begin_ring();
      return {};
    }
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
      return set_descriptor(request, std::get<std::uint64_t>(message.body), descriptors);
    case Request::set_vring_num:
    case Request::set_vring_addr:
    case Request::set_vring_base:
    case Request::set_vring_enable:
      return set_ring(message);
    case Request::set_config:
      return refuse(EINVAL, "the disk's configuration cannot be changed");
    default:  // Whose it is, is said by the connection.
      return {};
  }
}

Result<void> Device::set_ring(const Message& message) {
  if (const auto* const address = std::get_if<VringAddress>(&message.body)) {
    ring_.end();
    ring_.set_addresses(*address);
    begin_ring();
    return {};
  }
  const std::uint32_t number = std::get<VringState>(message.body).number;
  switch (message.header.request) {
    case Request::set_vring_num:
      return ring_.set_entries(number);
    case Request::set_vring_base:
      if (number > std::numeric_limits<std::uint16_t>::max())
        return refuse(EINVAL, fmt::format("the ring's next entry is {}", number));
      ring_.set_base(static_cast<std::uint16_t>(number));
      return {};
    default:
      is_enabled_ = number != 0;
      return {};
  }
}

Result<void> Device::set_descriptor(Request request, std::uint64_t value,
                                    std::span<UniqueFd> descriptors) {
  const std::size_t expected = (value & kNoDescriptor) != 0 ? 0 : 1;
  if ((value & kIndexMask) != 0 || descriptors.size() != expected)
    return refuse(EINVAL, fmt::format("{} descriptors for {:#x}: ring 0 alone is there, and has {}",
                                      descriptors.size(), value, expected));
  UniqueFd fd = expected == 1 ? std::move(descriptors.front()) : UniqueFd();
  if (request == Request::set_vring_kick) return set_kick(std::move(fd));
  (request == Request::set_vring_call ? call_ : error_) = std::move(fd);
  return {};
}

/// Starts the ring. Without a descriptor the frontend wants it polled, which we do not.
Result<void> Device::set_kick(UniqueFd fd) {
  if (kick_) outside_.unwatch_kick(kick_.get());
  kick_.reset();
  if (!fd) return refuse(EINVAL, "a ring without kicks");
  if (auto watched = outside_.watch_kick(fd.get()); !watched) return watched;
  kick_ = std::move(fd);
  is_broken_ = false;
  is_started_ = true;
  begin_ring();
  return {};
}

/// What it lacks may come yet.
void Device::begin_ring() {
  if (!is_started_ || ring_.has_begun()) return;
  if (const auto begun = ring_.begin(memory_); !begun) outside_.tell(begun.error().text);
}

void Device::break_ring(const std::string& why) {
  outside_.tell(why + ": the disk is not served until the guest resets it");
  is_broken_ = true;
  if (error_) eventfd_write(error_.get(), 1);
}

Bytes Device::config(const ConfigAccess& access) const {
  const auto all = config_of(facts_);
  return encode_reply(Request::get_config, access,
                      ByteSpan(all).subspan(access.offset, access.bytes));
}

void Device::on_kick() {
  std::uint64_t count = 0;
  const auto got = ::read(kick_.get(), &count, sizeof count);
  const bool is_early = got < 0 && (errno == EAGAIN || errno == EINTR);
  if (got != sizeof count && !is_early) {
    outside_.unwatch_kick(kick_.get());
    kick_.reset();
    return break_ring("the ring's kicks have ended");
  }
  pump();
}

void Device::pump() {
  has_answers_ = false;
  const bool has_given = give_answers();
  if (is_running()) take_requests();
  // Those that were answered at once are given in the next turn.
  if (has_given && call_ && ring_.has_begun() && ring_.wants_call()) eventfd_write(call_.get(), 1);
}

bool Device::give_answers() {
  bool has_given = false;
  while (!jobs_.empty() && jobs_.front().is_done()) {
    Job& job = jobs_.front();
    if (job.then_flush && job.error == 0 && !job.status) {
      job.then_flush = false;
      job.kind = Ask::Kind::flush;
      job.is_answered = false;
      job.begun = job.bytes = 0;
      outside_.ask(job);
      continue;
    }
    if (has_frontend_ && ring_.has_begun() && !is_broken_) {
      ring_.put(job.chain.head, write_answer(job, memory_));
      has_given = true;
    }
    bytes_ -= data_bytes_of(job.chain);
    jobs_.pop_front();
  }
  return has_given;
}

void Device::take_requests() {
  // As many as the ring has: more are a guest's that answers to itself.
  while (jobs_.size() < Ring::kEntriesMax) {
    auto chain = ring_.take();
    if (!chain) return break_ring(chain.error().text);
    if (!*chain) return;
    const std::uint64_t bytes = data_bytes_of(**chain);
    if (!jobs_.empty() && bytes_ + bytes > kDataBytesMax) return ring_.untake();
    Job& job = jobs_.emplace_back();
    job.chain = std::move(**chain);
    job.user = this;
    bytes_ += bytes;
    if (const auto read = read_request(job, memory_, facts_, features_); !read) {
      bytes_ -= bytes;
      jobs_.pop_back();
      return break_ring(read.error().text);
    }
    if (job.status) {
      has_answers_ = true;
    } else {
      outside_.ask(job);
    }
  }
}

std::optional<Bytes> Device::take_late_reply() {
  if (!is_stopping_ || !is_idle()) return {};
  is_stopping_ = false;
  is_started_ = false;
  ring_.end();
  if (kick_) outside_.unwatch_kick(kick_.get());
  kick_.reset();
  return encode_reply(Request::get_vring_base, VringState{0, ring_.base()});
}

void Device::forget_frontend() {
  if (kick_) outside_.unwatch_kick(kick_.get());
  for (UniqueFd* const fd : {&kick_, &call_, &error_}) fd->reset();
  memory_ = GuestMemory();
  ring_ = Ring();
  features_ = protocol_features_ = 0;
  is_enabled_ = is_stopping_ = is_broken_ = is_started_ = has_frontend_ = false;
}

}  // namespace verbatim::ulp::disk::vhost
