#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ulp/srp/initiator/initiator.h"

/// Commands: how they are sent, what their answers mean, and when they are sent again.
namespace verbatim::ulp::srp {

using scsi::DataDirection;

storage::PeerMemory Initiator::scratch(std::size_t at, std::uint32_t bytes) const {
  return {{scratch_.data() + at, bytes, scratch_.here.local_key}, scratch_.remote_key};
}

/// The next of the first commands; after the last one the disk is there.
void Initiator::ask_unit(TimeNs now, Output& out) {
  const auto command = probe_.command();
  if (command) {
    Request& request = *requests_.take();
    request.command = *command;
    request.memory = scratch(0, command->data_bytes);
    return post(request, now, out);
  }
  if (const storage::Failure* const failure = probe_.failure())
    return end(failure->words, failure->is_final, out);
  facts_ = *probe_.facts();
  facts_->requests_max = std::min<std::uint32_t>(
      settings_.requests, static_cast<std::uint32_t>(login_.request_limit - 1));
  facts_->transfer_bytes_max = std::min(facts_->transfer_bytes_max, settings_.transfer_bytes_max);
  probe_.access().put_off(now);
}

bool Initiator::on_request(const storage::DiskRequest& wanted, TimeNs now, Output& out) {
  messages_.clear();
  if (is_over_ || !facts_ || requests_.full() || !to_send_.empty() || !can_send()) return false;
  Request& request = *requests_.take();
  request.command = scsi::command_of(wanted, *facts_);
  request.memory = request.command.is_zero_block ? scratch(kZeroesAt, request.command.data_bytes)
                                                 : wanted.memory;
  request.user = wanted.user;
  post(request, now, out);
  return true;
}

bool Initiator::fits_message(const Request& request) const {
  const std::uint32_t bytes = request.command.data_bytes;
  return request.command.direction == DataDirection::to_target && bytes <= kImmediateBytesMax &&
         (login_.flags & kImmediateData) != 0 && kImmediateAt + bytes <= login_.request_bytes;
}

/// Writes descriptors behind the command. Returns the length of the message without its data.
std::size_t Initiator::describe(Request& request) const {
  const bool writes = request.command.direction == DataDirection::to_target;
  const std::uint32_t bytes = request.command.data_bytes;
  std::byte* const at = &request.message[Command::kSize];
  const auto set_format = [&](Format format) {
    request.message[5] = static_cast<std::byte>(raw(format) << (writes ? 4 : 0));
  };
  const auto put_range = [](std::byte* to, std::uint64_t address, MemoryKey key,
                            std::uint32_t length) {
    store_be(to, address);
    store_be(to + 8, raw(key));
    store_be(to + 12, length);
  };
  if (request.command.direction == DataDirection::none) return Command::kSize;
  if (fits_message(request)) {
    set_format(Format::immediate);
    store_be(at, bytes);
    return kImmediateAt;
  }
  const storage::PeerMemory& memory = request.memory;
  if ((login_.formats & settings_.formats & kDirectFormat) != 0) {
    set_format(Format::direct);
    put_range(at, memory.address(), memory.remote_key, bytes);
    return Command::kSize + Buffer::kRangeBytes;
  }
  // One range, which is in the message: nobody reads the table itself.
  set_format(Format::indirect);
  request.message[writes ? 6 : 7] = std::byte{1};
  put_range(at, memory.address(), memory.remote_key, Buffer::kRangeBytes);
  store_be(at + 16, bytes);
  put_range(at + 20, memory.address(), memory.remote_key, bytes);
  return request.message.size();
}

void Initiator::post(Request& request, TimeNs now, Output& out) {
  const Tag tag = requests_.tag_of(request);
  request.message = {};
  request.message[0] = std::byte{raw(Opcode::command)};
  store_be(&request.message[kTagAt], std::uint64_t{raw(tag)});
  store_be(&request.message[20], settings_.lun);
  std::ranges::copy(request.command.cdb, &request.message[32]);
  const std::size_t bytes = describe(request);
  Send send{.header = ByteSpan(request.message).first(bytes)};
  if (fits_message(request)) {
    request.data = request.memory.here;
    request.data.bytes = request.command.data_bytes;
    request.is_leaving = true;
    send.payload = {&request.data, 1};
    send.done = tag;
  }
  request.is_sent = true;
  request.due = now + settings_.patience;
  look_ = std::min(look_, request.due);
  --credits_;
  ++in_flight_;
  out.on(storage::Channel{}).push(send);
}

void Initiator::on_answer(Request& request, const Response& response, TimeNs now, Output& out) {
  if (request.user == kNoTag) return on_unit_answer(request, response, now, out);
  int error = scsi::error_of(scsi::Status{response.status}, response.sense);
  if (error != 0) probe_.access().on_answer(response.sense, now);
  const std::int64_t residual = request.command.direction == DataDirection::from_target
                                    ? response.in_residual
                                    : response.out_residual;
  // The target says that all is well, and has moved less than was asked.
  if (error == 0 && residual < 0) error = EIO;
  finish(request, error, out);
}

void Initiator::on_unit_answer(Request& request, const Response& response, TimeNs now,
                               Output& out) {
  const std::int64_t less = std::min<std::int64_t>(response.in_residual, 0);
  const std::int64_t bytes =
      std::max<std::int64_t>(std::int64_t{request.command.data_bytes} + less, 0);
  const scsi::Status status{response.status};
  const ByteSpan data{scratch_.data(), static_cast<std::size_t>(bytes)};
  requests_.give_back(request);
  if (facts_) return probe_.access().on_report(status, response.sense, data, now);
  probe_.on_answer(status, response.sense, data);
  ask_unit(now, out);
}

/// The answer waits until the adapter reads the data no more.
void Initiator::finish(Request& request, int error, Output& out) {
  request.answer = error;
  if (request.is_leaving) return;
  out.answers.push({.user = request.user, .error = error});
  requests_.give_back(request);
}

/// With a new tag: an answer of what was aborted is nobody's.
void Initiator::repeat(Request& request) {
  --in_flight_;
  Request again = request;
  requests_.give_back(request);
  Request& place = *requests_.take();
  again.is_sent = false;
  again.is_leaving = false;
  ++again.repeats;
  place = again;
  to_send_.push_back(requests_.tag_of(place));
}

void Initiator::repeat_all() {
  // Each goes back into its own place.
  requests_.for_each([&](Request& request) {
    if (request.is_sent && !request.answer) repeat(request);
  });
}

void Initiator::pump(TimeNs now, Output& out) {
  while (!is_over_ && !to_send_.empty() && can_send()) {
    if (!out.has_room()) {
      out.more = true;
      return;
    }
    Request* const request = requests_.find(to_send_.front());
    to_send_.pop_front();
    if (request == nullptr) continue;
    if (request->repeats > kRepeatsMax) {
      finish(*request, EIO, out);
    } else {
      post(*request, now, out);
    }
  }
  if (facts_ && probe_.access().deadline(in_flight_ > 0) <= now) look_at_access(now, out);
}

/// Asks how well the port reaches the unit now; if there is no room, a little later.
void Initiator::look_at_access(TimeNs now, Output& out) {
  if (is_over_ || requests_.full() || !to_send_.empty() || !can_send())
    return probe_.access().try_later(now);
  Request& request = *requests_.take();
  request.command = scsi::PortAccess::command();
  request.memory = scratch(0, request.command.data_bytes);
  probe_.access().on_asked(now);
  post(request, now, out);
}

}  // namespace verbatim::ulp::srp
