#include "ulp/sdp/stream.h"

#include <algorithm>

#include "base/assert.h"

namespace verbatim::ulp::sdp {
namespace {

bool has_room(std::uint32_t buffers, std::uint32_t receive_bytes) {
  return buffers >= kFewestReceives && receive_bytes > Header::kSize;
}

}  // namespace

const char* words_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "no fault";
    case Fault::message:
      return "a message that is none of SDP's";
    case Fault::no_room:
      return "too few or too small receives";
    case Fault::sequence:
      return "a message out of sequence";
    case Fault::acknowledgement:
      return "an acknowledgement of what was not sent";
    case Fault::after_end:
      return "data after DisConn";
    case Fault::unexpected:
      return "a message that nothing asked for";
  }
  return "";
}

Stream::Stream(const Limits& own) : own_(own), posted_(own.receives), ring_(own.receives) {
  VERBATIM_ASSERT(has_room(own.receives, own.receive_bytes));
}

Hello Stream::hello() const {
  return {.buffers = own_.receives,
          .wanted_bytes = own_.receive_bytes,
          .own_bytes = own_.receive_bytes};
}

std::expected<HelloAck, Fault> Stream::on_hello(const Hello& hello) {
  if (!has_room(hello.buffers, hello.own_bytes)) return std::unexpected(Fault::no_room);
  data_max_ = std::min(hello.own_bytes, kMostReceiveBytes) - Header::kSize;
  limit_ = hello.buffers;
  told_ = posted_;
  return HelloAck{
      .buffers = own_.receives, .is_ipv6 = hello.is_ipv6, .own_bytes = own_.receive_bytes};
}

std::expected<void, Fault> Stream::on_hello_ack(const HelloAck& ack) {
  if (!has_room(ack.buffers, ack.own_bytes)) return std::unexpected(Fault::no_room);
  data_max_ = std::min(ack.own_bytes, kMostReceiveBytes) - Header::kSize;
  limit_ = ack.buffers;
  told_ = posted_;
  return {};
}

std::uint32_t Stream::credits() const {
  const auto left = static_cast<std::int32_t>(limit_ - sequence_);
  return left > 0 ? static_cast<std::uint32_t>(left) : 0;
}

Header Stream::header(Mid mid, std::size_t bytes) {
  told_ = received_ + posted_;
  freed_ = 0;
  return {.mid = mid,
          .buffers = static_cast<std::uint16_t>(posted_),
          .length = static_cast<std::uint32_t>(Header::kSize + bytes),
          .sequence = ++sequence_,
          .acknowledged = received_};
}

Header Stream::data(std::size_t bytes, bool is_urgent) {
  VERBATIM_ASSERT(bytes > 0 && bytes <= room());
  Header header = this->header(Mid::data, bytes);
  header.has_urgent = is_urgent;
  return header;
}

Header Stream::lend(const SourceAvailable& memory, std::size_t bytes) {
  VERBATIM_ASSERT(bytes > 0 && bytes < memory.bytes && bytes <= lending_room());
  const Header header = this->header(Mid::source_available, kSourceBytes + bytes);
  lending_.begin(header.sequence, memory.bytes, static_cast<std::uint32_t>(bytes));
  return header;
}

void Stream::on_borrowed_read(std::uint32_t bytes) {
  borrowing_.on_read(bytes);
  arrived_ += bytes;
  read_ += bytes;
}

Stream::Control Stream::control(Mid mid, const Body& body, std::size_t body_bytes) {
  return {header(mid, body_bytes), body};
}

/// The peer knows of less than two thirds of the receives. If it has only given credits since it
/// was told, it is told again when it could not send data any more, but then can: each such answer
/// needs two messages of the peer, so two sides that do not read do not answer each other for ever.
/// And it must be able to answer to what is lent to it.
bool Stream::owes_credits() const {
  const std::uint32_t known = told_ - received_;
  if (3 * known >= 2 * posted_) return false;
  if (lending_.is_open() && known <= 1 && posted_ > 1 && credits() > kReserved) return true;
  return freed_ > 0 || (known <= kReserved && posted_ > kReserved);
}

std::optional<Stream::Control> Stream::next_control() {
  if (credits() == 0 || data_max_ == 0) return std::nullopt;
  if (std::exchange(abort_owed_, false)) {
    is_aborted_ = is_finished_ = true;
    finish_owed_ = false;
    return control(Mid::abort);
  }
  if (has_ended()) return std::nullopt;
  if (credits() > 1) {
    if (const auto zcopy = next_zcopy()) return zcopy;
    if (std::exchange(sink_cancel_owed_, false)) return control(Mid::sink_cancel_ack);
    if (std::exchange(buffer_change_owed_, false)) {
      return control(Mid::buffer_change_ack, BufferSize{own_.receive_bytes}, 4);
    }
    if (!lending_.is_open() && std::exchange(finish_owed_, false)) {
      is_finished_ = true;
      return control(Mid::disconnect);
    }
  }
  if (owes_credits()) return control(Mid::data);
  return std::nullopt;
}

std::optional<Stream::Control> Stream::next_zcopy() {
  if (const std::uint32_t bytes = borrowing_.read_owed(); bytes > 0) {
    borrowing_.told_read();
    return control(Mid::read_done, Moved{bytes}, 4);
  }
  if (borrowing_.refusal_owed()) {
    borrowing_.told_refusal();
    return control(Mid::send_mode);
  }
  if (lending_.take_cancel()) return control(Mid::source_cancel);
  return std::nullopt;
}

Stream::Use Stream::fail(Fault fault) {
  fault_ = fault;
  abort_owed_ = true;
  finish_owed_ = false;
  return Use::again;
}

void Stream::learn_credits(const Header& header) {
  acknowledged_ = header.acknowledged;
  limit_ = header.acknowledged + header.buffers;
}

Stream::Use Stream::on_message(std::uint32_t slot, ByteSpan bytes) {
  if (has_ended()) return Use::again;
  const auto message = decode_message(bytes);
  if (!message) return fail(Fault::message);
  const Header& header = message->header;
  if (header.sequence != received_ + 1 || posted_ == 0) return fail(Fault::sequence);
  if (header.acknowledged - acknowledged_ > sequence_ - acknowledged_) {
    return fail(Fault::acknowledgement);
  }
  ++received_;
  learn_credits(header);
  const Use use = dispatch(slot, *message);
  const bool only_gives_credits = header.mid == Mid::data && message->data.empty();
  if (use == Use::kept) --posted_;
  if (use == Use::again && !only_gives_credits) ++freed_;
  return use;
}

Stream::Use Stream::dispatch(std::uint32_t slot, const Message& message) {
  switch (message.header.mid) {
    case Mid::data:
      return on_data(slot, message, borrowing_.is_open());
    case Mid::source_available:
      if (!borrowing_.begin(std::get<SourceAvailable>(message.body),
                            static_cast<std::uint32_t>(message.data.size()))) {
        return fail(Fault::unexpected);
      }
      if (!borrows_) borrowing_.refuse();  // The peer sends it as Data (A4.6.3).
      return on_data(slot, message, false);
    case Mid::read_done:
      return lending_.on_read(std::get<Moved>(message.body).bytes) ? Use::again
                                                                   : fail(Fault::unexpected);
    case Mid::send_mode:
      return lending_.on_refusal(message.header.acknowledged) ? Use::again
                                                              : fail(Fault::unexpected);
    case Mid::source_cancel:  // Nothing, if it is read or refused already.
      borrowing_.refuse();
      return Use::again;
    case Mid::disconnect:
      peer_finished_ = true;
      return Use::again;
    case Mid::abort:
      peer_aborted_ = true;
      return Use::again;
    case Mid::sink_cancel:
      sink_cancel_owed_ = true;
      return Use::again;
    case Mid::buffer_change:
      buffer_change_owed_ = true;  // The size stays as it is.
      return Use::again;
    case Mid::sink_available:  // Data messages follow, which make it void.
    case Mid::mode_change:     // The mode says how memory is offered, which this side does not do.
      return Use::again;
    default:
      return fail(Fault::unexpected);
  }
}

/// `overtakes`: bytes before these are lent and not read yet.
Stream::Use Stream::on_data(std::uint32_t slot, const Message& message, bool overtakes) {
  std::size_t bytes = message.data.size();
  if (bytes == 0) return Use::again;
  if (overtakes) return fail(Fault::unexpected);
  if (peer_finished_) return fail(Fault::after_end);
  const bool is_urgent = message.header.has_urgent;
  if (is_urgent) {
    has_mark_ = true;
    urgent_taken_ = false;
    mark_ = arrived_ + bytes - 1;
    urgent_.reset();
    if (!urgent_inline_) urgent_ = message.data[--bytes];
  }
  if (bytes == 0) return Use::again;
  arrived_ += bytes;
  const std::size_t head = message.header.length - message.data.size();
  ring_[(first_ + count_++) % ring_.size()] = {.slot = slot,
                                               .offset = static_cast<std::uint32_t>(head),
                                               .bytes = static_cast<std::uint32_t>(bytes)};
  return Use::kept;
}

Stream::Piece Stream::piece(std::size_t index) const {
  return ring_[(first_ + index) % ring_.size()];
}

std::optional<std::uint64_t> Stream::bytes_to_mark() const {
  if (!has_mark_ || mark_ <= read_) return std::nullopt;
  return mark_ - read_;
}

std::optional<std::uint32_t> Stream::consume(std::uint32_t bytes) {
  Piece& piece = ring_[first_];
  VERBATIM_ASSERT(count_ > 0 && bytes <= piece.bytes);
  piece.offset += bytes;
  piece.bytes -= bytes;
  read_ += bytes;
  if (has_mark_ && read_ > mark_) has_mark_ = false;
  if (piece.bytes > 0) return std::nullopt;
  const std::uint32_t slot = piece.slot;
  first_ = (first_ + 1) % ring_.size();
  --count_;
  ++posted_;
  ++freed_;
  return slot;
}

std::optional<std::byte> Stream::urgent(bool peek) {
  if (!urgent_) return std::nullopt;
  const auto byte = urgent_;
  if (!peek) {
    urgent_.reset();
    urgent_taken_ = true;
  }
  return byte;
}

}  // namespace verbatim::ulp::sdp
