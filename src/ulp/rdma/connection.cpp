#include "ulp/rdma/connection.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr const char* kRefused = "the adapter refuses work";
constexpr const char* kTooManySlices = "a message of more slices than the queue pair takes";
constexpr const char* kHeaderTooLong = "a header of more bytes than a buffer for headers has";

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

ibv_sge element(const Slice& slice) {
  return {address_of(slice.data), slice.bytes, raw(slice.local_key)};
}

}  // namespace

Tag Connection::tag_of(const Request& request) {
  return std::visit(
      Overloaded{[](const Bind&) { return kNoTag; }, [](const EndKey&) { return kNoTag; },
                 [](const auto& work) { return work.done; }},
      request);
}

std::optional<const char*> Connection::carry_out(std::span<const Work> work) {
  if (work.empty()) return answer();
  Chain chain;
  const char* disconnect = nullptr;
  for (const Work& one : work) {
    std::visit(
        Overloaded{[](const PostAgain&) {}, [&](const Disconnect& end) { disconnect = end.reason; },
                   [&](const auto& request) { put(chain, request); }},
        one);
    if (disconnect != nullptr) break;
  }
  post(chain);
  if (disconnect != nullptr) return disconnect;
  return answer();
}

std::optional<const char*> Connection::carry_out_one(const Request& request) {
  Chain chain;
  put(chain, request);
  post(chain);
  return answer();
}

std::optional<const char*> Connection::resume() {
  if (kept_.empty()) return answer();
  Chain chain;
  post_kept(chain);
  post(chain);
  return answer();
}

template <typename One>
void Connection::put(Chain& chain, const One& request) {
  Progress progress;
  if (!kept_.empty() || is_closed_) return keep(request, progress);
  if (add(chain, request, progress) == Added::part) keep(request, progress);
}

void Connection::keep(const Request& request, const Progress& progress) {
  Kept& kept = kept_.emplace_back(request, std::vector<std::byte>{}, progress);
  if (auto* const send = std::get_if<Send>(&kept.request)) {
    kept.header.assign(send->header.begin(), send->header.end());
    send->header = kept.header;
  }
}

void Connection::post_kept(Chain& chain) {
  waits_for_header_ = false;
  while (!kept_.empty() && !is_closed_) {
    if (add(chain, kept_.front().request, kept_.front().progress) == Added::part) return;
    // An inline header is read when it is posted.
    if (!kept_.front().header.empty()) post(chain);
    kept_.pop_front();
  }
}

Connection::Added Connection::add(Chain& chain, const Request& request, Progress& progress) {
  return std::visit([&](const auto& one) { return add(chain, one, progress); }, request);
}

/// The chain has room for one more request with all slices that one may have.
ibv_send_wr& Connection::next(Chain& chain, ibv_wr_opcode opcode) {
  if (chain.request_count == chain.requests.size() ||
      chain.slices.size() - chain.slice_count < setup_.slices + 1) {
    post(chain);
  }
  ibv_send_wr& request = chain.requests[chain.request_count++];
  request = {};
  request.wr_id = WorkId{.kind = WorkId::Kind::work,
                         .connection = setup_.number,
                         .count = setup_.count,
                         .value = posted_ + chained_++}
                      .encoded();
  request.opcode = opcode;
  request.sg_list = &chain.slices[chain.slice_count];
  return request;
}

void Connection::add_slices(Chain& chain, ibv_send_wr& request,
                            std::span<const Slice> slices) const {
  for (const Slice& slice : slices) chain.slices[chain.slice_count++] = element(slice);
  request.num_sge += static_cast<int>(slices.size());
}

/// `header`: a buffer that the completion gives back, so there is one.
void Connection::end_request(ibv_send_wr& request, Tag tag, std::uint32_t header) {
  const bool is_owed = tag != kNoTag || header != kNoHeader;
  if (is_owed) {
    std::size_t at = owed_first_ + owed_count_++;
    if (at >= owed_.size()) at -= owed_.size();
    owed_[at] = {WorkId::decode(request.wr_id).value, tag, header};
  }
  if (!is_owed && ++unsignaled_ < std::max(setup_.depth / 4, 1u)) return;
  request.send_flags |= IBV_SEND_SIGNALED;
  unsignaled_ = 0;
}

Connection::Owed Connection::pop_owed() {
  const Owed owed = owed_[owed_first_];
  if (++owed_first_ == owed_.size()) owed_first_ = 0;
  --owed_count_;
  if (owed.header != kNoHeader) {
    const Slice buffer = setup_.headers->at(owed.header);
    setup_.headers->give_back({&buffer, 1});
  }
  return owed;
}

Connection::Added Connection::add(Chain& chain, const Send& send, Progress&) {
  const std::uint64_t bytes = send.header.size() + bytes_of(send.payload);
  const bool is_inline = bytes <= setup_.inline_bytes;
  if (is_full()) return Added::part;
  if (send.payload.size() + (send.header.empty() ? 0 : 1) > setup_.slices) {
    reason_ = kTooManySlices;
    return Added::part;
  }
  std::uint32_t header = kNoHeader;
  Slice head{const_cast<std::byte*>(send.header.data()),
             static_cast<std::uint32_t>(send.header.size())};
  if (!send.header.empty() && !is_inline) {
    if (setup_.headers == nullptr || send.header.size() > setup_.headers->buffer_bytes()) {
      reason_ = kHeaderTooLong;
      return Added::part;
    }
    Slice buffer;
    if (!setup_.headers->take({&buffer, 1})) {
      waits_for_header_ = true;
      return Added::part;
    }
    std::ranges::copy(send.header, buffer.data);
    header = setup_.headers->index_of(buffer);
    head = {buffer.data, head.bytes, buffer.local_key};
  }
  ibv_send_wr& request = next(chain, send.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND);
  if (send.invalidate) request.invalidate_rkey = raw(*send.invalidate);
  if (send.solicited) request.send_flags |= IBV_SEND_SOLICITED;
  if (is_inline && bytes > 0) request.send_flags |= IBV_SEND_INLINE;
  if (head.bytes > 0) add_slices(chain, request, {&head, 1});
  add_slices(chain, request, send.payload);
  end_request(request, send.done, header);
  return Added::all;
}

/// In as many work requests as the slices need.
Connection::Added Connection::add_moved(Chain& chain, ibv_wr_opcode opcode,
                                        std::span<const Slice> local, const RemoteRange& remote,
                                        Tag tag, Progress& progress) {
  const bool one_each = opcode == IBV_WR_RDMA_READ && setup_.reads_of_one_slice;
  const std::size_t most = one_each ? 1 : setup_.slices;
  do {
    if (is_full()) return Added::part;
    const auto part =
        local.subspan(progress.slices, std::min(most, local.size() - progress.slices));
    ibv_send_wr& request = next(chain, opcode);
    request.wr.rdma.remote_addr = remote.address + progress.bytes;
    request.wr.rdma.rkey = raw(remote.remote_key);
    add_slices(chain, request, part);
    progress.slices += part.size();
    progress.bytes += bytes_of(part);
    end_request(request, progress.slices == local.size() ? tag : kNoTag, kNoHeader);
  } while (progress.slices < local.size());
  return Added::all;
}

Connection::Added Connection::add(Chain& chain, const Write& write, Progress& progress) {
  return add_moved(chain, IBV_WR_RDMA_WRITE, write.from, write.to, write.done, progress);
}

Connection::Added Connection::add(Chain& chain, const Read& read, Progress& progress) {
  return add_moved(chain, IBV_WR_RDMA_READ, read.into, read.from, read.done, progress);
}

Connection::Added Connection::add(Chain& chain, const Bind& bind, Progress&) {
  if (is_full()) return Added::part;
  ibv_send_wr& request = next(chain, IBV_WR_BIND_MW);
  unsigned rights = IBV_ACCESS_REMOTE_READ;
  if (bind.peer_writes) rights |= IBV_ACCESS_REMOTE_WRITE;
  request.bind_mw = {.mw = bind.window,
                     .rkey = raw(bind.key),
                     .bind_info = {.mr = bind.region,
                                   .addr = address_of(bind.bytes.data),
                                   .length = bind.bytes.bytes,
                                   .mw_access_flags = rights}};
  end_request(request, kNoTag, kNoHeader);
  return Added::all;
}

Connection::Added Connection::add(Chain& chain, const EndKey& key, Progress&) {
  if (is_full()) return Added::part;
  ibv_send_wr& request = next(chain, IBV_WR_LOCAL_INV);
  request.invalidate_rkey = raw(key.key);
  end_request(request, kNoTag, kNoHeader);
  return Added::all;
}

Connection::Added Connection::add(Chain& chain, const Atomic& atomic, Progress&) {
  if (is_full()) return Added::part;
  ibv_send_wr& request =
      next(chain, atomic.compares ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD);
  request.wr.atomic = {.remote_addr = atomic.remote.address,
                       .compare_add = atomic.compares ? atomic.compare : atomic.value,
                       .swap = atomic.compares ? atomic.value : 0,
                       .rkey = raw(atomic.remote.remote_key)};
  add_slices(chain, request, {&atomic.into, 1});
  end_request(request, atomic.done, kNoHeader);
  return Added::all;
}

void Connection::post(Chain& chain) {
  if (chain.request_count == 0) return;
  if (is_closed_) return drop(chain);  // What stands before it was refused.
  for (std::size_t i = 0; i + 1 < chain.request_count; ++i)
    chain.requests[i].next = &chain.requests[i + 1];
  ibv_send_wr* refused = nullptr;
  std::size_t posted = chain.request_count;
  if (ibv_post_send(setup_.queue_pair, chain.requests.data(), &refused) != 0) {
    // What it has refused is given back when the connection is over.
    posted = static_cast<std::size_t>(refused - chain.requests.data());
    reason_ = kRefused;
    is_closed_ = true;
  }
  posted_ += static_cast<std::uint32_t>(posted);
  drop(chain);
}

void Connection::drop(Chain& chain) {
  chained_ = 0;
  chain.request_count = chain.slice_count = 0;
}

void Connection::close() {
  if (std::exchange(is_closing_, true)) return;
  is_closed_ = true;
  if (posted_ == ended_) return;
  ibv_send_wr last{.wr_id = WorkId{.kind = WorkId::Kind::work,
                                   .connection = setup_.number,
                                   .count = setup_.count,
                                   .value = posted_}
                                .encoded(),
                   .opcode = IBV_WR_SEND,
                   .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(setup_.queue_pair, &last, &refused) == 0) ++posted_;
}

}  // namespace verbatim::ulp::rdma
