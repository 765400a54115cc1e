#include "ulp/rsocket/sdp/end.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>

#include "base/log.h"

namespace verbatim::rsocket {
namespace {

using ulp::sdp::Fault;
using ulp::sdp::Header;
using ulp::sdp::Limits;

constexpr std::uint32_t kSlotBytes = 16'384;  // Of a message, with its header.
constexpr std::uint32_t kControlBytes = 64;   // Of a message besides Data.
constexpr std::uint32_t kFewestSlots = 4, kMostSlots = 64;
// In a request's id, beside the slot: `kReceive`, or that it is no Data message.
constexpr std::uint64_t kControl = std::uint64_t{1} << 62;
constexpr std::uint64_t kRead = std::uint64_t{1} << 61;
/// Reads of less are not worth a registration.
constexpr std::size_t kLeastBorrowed = 32'768;
/// What goes with an offer.
constexpr std::size_t kFirstBytes = 4096;

/// Bytes of a send that waits, from which on memory is lent; 0: never.
std::size_t lending_threshold() {
  static const std::size_t bytes = [] {
    const char* const text = std::getenv("SDP_ZCOPY_THRESH");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }();
  return bytes;
}

/// Slots for so many bytes that are in flight.
std::uint32_t slots_for(std::uint32_t bytes) {
  return std::clamp(2 * bytes / kSlotBytes, kFewestSlots, kMostSlots);
}

/// The address as Hello has it, and its port.
std::uint16_t store_address(const sockaddr* from, ulp::sdp::IpBytes& to) {
  if (from->sa_family == AF_INET6) {
    const auto& ip = *reinterpret_cast<const sockaddr_in6*>(from);
    std::memcpy(to.data(), &ip.sin6_addr, to.size());
    return be16toh(ip.sin6_port);
  }
  const auto& ip = *reinterpret_cast<const sockaddr_in*>(from);
  std::memcpy(&to[12], &ip.sin_addr, sizeof ip.sin_addr);
  return be16toh(ip.sin_port);
}

template <typename Private>
std::vector<std::byte> encoded(const Private& value) {
  std::vector<std::byte> bytes(Private::kSize);
  encode(value, std::span(bytes).template first<Private::kSize>());
  return bytes;
}

}  // namespace

SdpEnd::SdpEnd(rdma_cm_id* id, const Sizes& sizes, const Limits& limits)
    : id_(id), sizes_(sizes), limits_(limits), stream_(limits) {
  stream_.set_borrows(true);
}

Outcome<std::unique_ptr<SdpEnd>> SdpEnd::make(rdma_cm_id* id, const Sizes& sizes) {
  const Limits limits{.receives = static_cast<std::uint16_t>(slots_for(sizes.receive_bytes)),
                      .receive_bytes = kSlotBytes};
  std::unique_ptr<SdpEnd> end(new SdpEnd(id, sizes, limits));
  end->slots_ = end->slots_free_ = slots_for(sizes.send_bytes);
  if (auto ok = end->make_queues(); !ok) return fail(ok.error());
  if (auto ok = end->make_buffers(); !ok) return fail(ok.error());
  for (std::uint32_t slot = 0; slot < limits.receives; ++slot) {
    if (auto ok = end->post_receive(slot); !ok) return fail(ok.error());
  }
  return end;
}

Outcome<void> SdpEnd::make_queues() {
  channel_ = ibv_create_comp_channel(id_->verbs);
  if (channel_ == nullptr) return fail(errno);
  fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
  const std::uint32_t sends = slots_ + kControls + 1;  // A READ.
  cq_ = make_completion_queue(id_->verbs, sends + limits_.receives, channel_);
  if (cq_ == nullptr) return fail(errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(cq_);
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = sends,
                    .max_recv_wr = limits_.receives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  if (rdma_create_qp(id_, nullptr, &attributes) != 0) return fail(errno);
  return {};
}

Outcome<void> SdpEnd::make_buffers() {
  ibv_pd* const pd = id_->qp->pd;
  const std::size_t send_bytes = std::size_t{slots_} * kSlotBytes + kControls * kControlBytes;
  const std::size_t receive_bytes = std::size_t{limits_.receives} * kSlotBytes;
  auto pages = Pages::take(pd, receive_bytes + send_bytes);
  if (!pages) return fail(pages.error());
  pages_ = std::move(*pages);
  auto receive = Memory::over(pd, pages_->data(), receive_bytes, 0);
  if (!receive) return fail(ENOMEM);
  send_buffer_ = Part(pages_->data() + receive_bytes, pages_->lkey());
  receive_buffer_ = std::move(*receive);
  return {};
}

SdpEnd::~SdpEnd() {
  if (id_->qp != nullptr) rdma_destroy_qp(id_);
  if (cq_ != nullptr) ibv_destroy_cq(ibv_cq_ex_to_cq(cq_));
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

std::vector<std::byte> SdpEnd::offer() const {
  if (was_asked_) return encoded(answer_);
  ulp::sdp::Hello hello = stream_.hello();
  const sockaddr* const own = rdma_get_local_addr(id_);
  hello.is_ipv6 = own->sa_family == AF_INET6;
  hello.source_port = store_address(own, hello.source);
  if (port_ != 0) hello.source_port = port_;
  store_address(rdma_get_peer_addr(id_), hello.destination);
  return encoded(hello);
}

Outcome<void> SdpEnd::start(std::span<const std::byte> peer) {
  if (const auto ack = ulp::sdp::decode_hello_ack(peer)) {
    return stream_.on_hello_ack(*ack) ? Outcome<void>{} : fail(EPROTO);
  }
  const auto hello = ulp::sdp::decode_hello(peer);
  if (!hello) return fail(EPROTO);
  const auto answer = stream_.on_hello(*hello);
  if (!answer) return fail(EPROTO);
  answer_ = *answer;
  peer_port_ = hello->source_port;
  was_asked_ = true;
  return {};
}

Outcome<void> SdpEnd::post_receive(std::uint32_t slot) {
  ibv_sge piece{.addr = receive_buffer_.address() + std::uint64_t{slot} * kSlotBytes,
                .length = kSlotBytes,
                .lkey = receive_buffer_.lkey()};
  ibv_recv_wr request{.wr_id = kReceive | slot, .next = nullptr, .sg_list = &piece, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &bad); error != 0) return fail(error);
  return {};
}

Outcome<void> SdpEnd::post_send(std::uint64_t number, std::uint64_t offset, std::size_t bytes) {
  ibv_sge piece{.addr = send_buffer_.address() + offset,
                .length = static_cast<std::uint32_t>(bytes),
                .lkey = send_buffer_.lkey()};
  ibv_send_wr request{};
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0) {
    broken_ = true;
    return fail(error);
  }
  return {};
}

Outcome<std::size_t> SdpEnd::send_some(Cursor& from, std::size_t most, bool is_urgent) {
  const std::size_t bytes =
      std::min({from.left(), most, stream_.room(), std::size_t{kSlotBytes - Header::kSize}});
  const std::uint64_t offset = std::uint64_t{slot_} * kSlotBytes;
  std::byte* const at = send_buffer_.data() + offset;
  encode(stream_.data(bytes, is_urgent && bytes == from.left()), {},
         std::span<std::byte, ulp::sdp::kMostHead>(at, ulp::sdp::kMostHead));
  from.read(at + Header::kSize, bytes);
  slot_ = (slot_ + 1) % slots_;
  --slots_free_;
  if (auto ok = post_send(0, offset, Header::kSize + bytes); !ok) return fail(ok.error());
  return bytes;
}

void SdpEnd::send_controls() {
  while (controls_free_ > 0 && !broken_) {
    const auto control = stream_.next_control();
    if (!control) break;
    const std::uint64_t offset = std::uint64_t{slots_} * kSlotBytes + control_ * kControlBytes;
    const std::span<std::byte, ulp::sdp::kMostHead> at(send_buffer_.data() + offset,
                                                       ulp::sdp::kMostHead);
    const std::size_t bytes = encode(control->header, control->body, at);
    control_ = (control_ + 1) % kControls;
    --controls_free_;
    if (!post_send(kControl, offset, bytes)) return;
  }
  if (stream_.has_ended() && stream_.is_drained()) broken_ = true;
}

Outcome<void> SdpEnd::finish(bool) {
  stream_.finish();
  send_controls();
  return {};
}

void SdpEnd::abort() {
  stream_.abort();
  send_controls();
}

std::size_t SdpEnd::bytes_to_read() const {
  std::size_t total = 0;
  for (std::size_t i = 0; i < stream_.pieces(); ++i) total += stream_.piece(i).bytes;
  if (const auto memory = stream_.borrowed()) total += memory->bytes;
  return total;
}

std::size_t SdpEnd::receive(Cursor& to) {
  std::size_t most = to.left();
  const bool is_small = most < kLeastBorrowed;
  if (const auto mark = stream_.bytes_to_mark()) most = std::min<std::size_t>(most, *mark);
  std::size_t total = 0;
  while (total < most && stream_.has_data()) {
    const auto piece = stream_.piece(0);
    const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(piece.bytes, most - total));
    to.write(receive_buffer_.data() + std::size_t{piece.slot} * kSlotBytes + piece.offset, bytes);
    total += bytes;
    if (const auto slot = stream_.consume(bytes); slot && !broken_ && !post_receive(*slot)) {
      broken_ = true;
    }
  }
  for (std::size_t bytes = 1; bytes > 0 && stream_.borrowed(); total += bytes) bytes = borrow(to);
  if (stream_.borrowed() && (is_small || to.left() > 0)) stream_.refuse_borrowed();
  send_controls();
  return total;
}

std::size_t SdpEnd::borrow(Cursor& to) {
  const auto memory = stream_.borrowed();
  const auto piece = to.piece();
  const std::size_t bytes = std::min<std::size_t>(piece.size(), memory->bytes);
  if (bytes == 0 || bytes < std::min<std::size_t>(kLeastBorrowed, memory->bytes)) return 0;
  auto region = Memory::over(id_->qp->pd, piece.data(), bytes, 0);
  if (!region) {
    stream_.refuse_borrowed();
    return 0;
  }
  stream_.begin_borrowed_read();
  is_reading_ = true;
  if (!post_read(*region, bytes, *memory)) broken_ = true;
  while (is_reading_ && !broken_) {  // At most as long as the queue pair tries.
    process(false);
    if (is_reading_) sched_yield();
  }
  if (broken_) return 0;
  stream_.on_borrowed_read(static_cast<std::uint32_t>(bytes));
  to.skip(bytes);
  return bytes;
}

Outcome<void> SdpEnd::post_read(const Memory& to, std::size_t bytes,
                                const ulp::sdp::SourceAvailable& from) {
  ibv_sge piece{
      .addr = to.address(), .length = static_cast<std::uint32_t>(bytes), .lkey = to.lkey()};
  ibv_send_wr request{};
  request.wr_id = kRead;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = from.address;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(from.key);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0) return fail(error);
  return {};
}

void SdpEnd::prepare_read(std::size_t bytes, bool peeks) {
  const auto memory = stream_.borrowed();
  if (!memory || (!peeks && bytes >= std::min<std::size_t>(kLeastBorrowed, memory->bytes))) return;
  stream_.refuse_borrowed();
  send_controls();
}

bool SdpEnd::may_lend(std::size_t bytes) const {
  const std::size_t least = lending_threshold();
  return least > 0 && bytes >= least && bytes <= UINT32_MAX && stream_.lending_room() > 0 &&
         slots_free_ > 0 && !broken_;
}

Outcome<void> SdpEnd::lend(std::span<std::byte> memory) {
  auto region = Memory::over(id_->qp->pd, memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ);
  if (!region) return fail(region.error());
  lent_ = std::move(*region);
  const std::size_t first = std::min({stream_.lending_room(), kFirstBytes, memory.size() - 1});
  const ulp::sdp::SourceAvailable offer{.bytes = static_cast<std::uint32_t>(memory.size()),
                                        .key = MemoryKey{lent_->rkey()},
                                        .address = lent_->address()};
  const std::uint64_t offset = std::uint64_t{slot_} * kSlotBytes;
  std::byte* const at = send_buffer_.data() + offset;
  const std::size_t head =
      encode(stream_.lend(offer, first), offer,
             std::span<std::byte, ulp::sdp::kMostHead>(at, ulp::sdp::kMostHead));
  std::memcpy(at + head, memory.data(), first);
  slot_ = (slot_ + 1) % slots_;
  --slots_free_;
  return post_send(0, offset, head + first);
}

void SdpEnd::reclaim() {
  stream_.reclaim();
  send_controls();
}

std::size_t SdpEnd::take_back() {
  lent_.reset();
  return stream_.lent_bytes_moved();
}

std::size_t SdpEnd::peek(Cursor& to) const {
  std::size_t total = 0;
  for (std::size_t i = 0; i < stream_.pieces() && to.left() > 0; ++i) {
    const auto piece = stream_.piece(i);
    const std::size_t bytes = std::min<std::size_t>(piece.bytes, to.left());
    to.write(receive_buffer_.data() + std::size_t{piece.slot} * kSlotBytes + piece.offset, bytes);
    total += bytes;
  }
  return total;
}

void SdpEnd::arm() {
  if (armed_) return;
  ibv_req_notify_cq(ibv_cq_ex_to_cq(cq_), 0);
  armed_ = true;
}

bool SdpEnd::take_channel_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return false;
  ibv_ack_cq_events(cq, 1);
  armed_ = false;
  return true;
}

bool SdpEnd::process(bool surely) {
  bool was_there = armed_ && surely && take_channel_event();
  const std::uint32_t before = arrivals_;
  const bool works = take_all(cq_, [&](const ibv_wc& completion, TimeNs at) {
    // Taking the event is a system call, so only if there was one: who sleeps must arm again.
    if (armed_) was_there |= take_channel_event();
    if (arrivals_ == before) arrived_at_ = at;
    take(completion);
  });
  if (!works) broken_ = true;
  send_controls();
  return was_there;
}

void SdpEnd::take(const ibv_wc& completion) {
  const bool well = completion.status == IBV_WC_SUCCESS;
  if ((completion.wr_id & kReceive) != 0) {
    if (well) on_message(static_cast<std::uint32_t>(completion.wr_id), completion.byte_len);
    return;  // Else it was flushed.
  }
  if (completion.wr_id == kRead) {
    is_reading_ = false;
    if (!well) broken_ = true;
    return;
  }
  ++((completion.wr_id & kControl) != 0 ? controls_free_ : slots_free_);
  if (!well) broken_ = true;
}

void SdpEnd::on_message(std::uint32_t slot, std::uint32_t bytes) {
  const bool had_fault = stream_.fault() != Fault::none;
  const bool was_urgent = stream_.is_urgent();
  const std::byte* const at = receive_buffer_.data() + std::size_t{slot} * kSlotBytes;
  const auto use = stream_.on_message(slot, {at, bytes});
  ++arrivals_;
  if (stream_.is_urgent() && !was_urgent) ++urgents_;
  if (use == ulp::sdp::Stream::Use::again && !post_receive(slot)) broken_ = true;
  if (!had_fault && stream_.fault() != Fault::none) {
    log(LogLevel::warn, "SDP: the peer sent {}: the connection is aborted",
        words_of(stream_.fault()));
  }
}

}  // namespace verbatim::rsocket
