#include <cstring>
#include <span>

#include "adapter/direct_link.h"
#include "adapter/held_memory.h"
#include "adapter/scatter.h"
#include "transport/ib/responder_checks.h"

/// The direct path's atomic operations, and what the peer has to do itself.
namespace verbatim::adapter {

using transport::Operation;
using transport::SendRequest;
using transport::Status;

namespace {

using Done = std::expected<void, region::KeyError>;

/// The value before.
std::uint64_t apply_atomic(std::uint64_t& word, const SendRequest& request, std::uint64_t value) {
  switch (request.operation) {
    case Operation::compare_and_swap:
      return compare_and_swap(word, request.compare_add, request.swap);
    case Operation::fetch_and_add:
      return fetch_and_add(word, request.compare_add);
    default:
      __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
      return 0;
  }
}

/// The 8 bytes of an atomic operation on this side: `use` reads or writes them.
template <typename Bytes, typename Use>
bool with_local(const LocalMemory& local, Bytes bytes, std::uint32_t right, Use use) {
  const auto move = [&](MemoryKey key, std::uint64_t iova, std::uint32_t length) -> Done {
    const auto here = local.visit(key, iova, length, right);
    if (!here) return std::unexpected(here.error());
    if (!use(*here, bytes.first(length))) return std::unexpected(region::KeyError::not_mapped);
    bytes = bytes.subspan(length);
    return {};
  };
  return for_each_piece(local.segments, 0, bytes.size(), move).has_value();
}

bool read_local(const LocalMemory& local, std::uint64_t& value) {
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  if (local.inlined.empty()) return with_local(local, bytes, region::kLocalRead, read_held);
  std::memcpy(bytes.data(), local.inlined.data(), bytes.size());
  return true;
}

bool write_local(const LocalMemory& local, std::uint64_t value) {
  return with_local(local, std::as_bytes(std::span(&value, 1)), region::kLocalWrite, write_held);
}

}  // namespace

/// The owner's answer to what only it can do. `complete(success)` when it has done it.
DirectLink::Outcome DirectLink::assist(const SendRequest& request, Assist::Kind kind,
                                       std::uint64_t address, std::uint32_t key) {
  Assist& wanted = at_->target().assist;
  switch (wanted.state.load(std::memory_order_acquire)) {
    case Assist::none:
      wanted.kind = kind;
      wanted.key = key;
      wanted.address = address;
      wanted.compare_add = request.compare_add;
      wanted.swap = request.swap;
      wanted.state.store(Assist::asked, std::memory_order_release);
      begun_ = true;
      at_->tell(kAssist);
      [[fallthrough]];
    case Assist::asked:
      if (at_->peer().is_gone()) return no_answer();
      deadline_ = monotonic_now() + kLookAgain;
      return Outcome::waits;
    case Assist::refused:
      wanted.state.store(Assist::none, std::memory_order_relaxed);
      return kind == Assist::find_host ? refuse_request() : refuse_access();
    default:  // Done.
      break;
  }
  wanted.state.store(Assist::none, std::memory_order_relaxed);
  return complete(Status::success);
}

DirectLink::Outcome DirectLink::atomic(const SendRequest& request, const LocalMemory& local) {
  const bool is_write = request.operation == Operation::atomic_write;
  if (request.remote_address % 8 != 0) return refuse_request();
  const auto region =
      visit(request, 8, transport::right_for(transport::info(request.operation).verb));
  if (!region) return refuse_access();
  std::uint64_t value = 0;
  if (is_write) {
    if (!read_local(local, value)) return complete(Status::local_protection_error);
  }
  const std::uint64_t there = address_in(**region, request.remote_address);
  std::uint64_t original = 0;
  const bool is_null = ((*region)->access & region::kNull) != 0;
  std::uint64_t* const word = is_null ? nullptr : at_->word(**region, there);
  if (word != nullptr) {
    original = apply_atomic(*word, request, value);
  } else if (!is_null) {
    const Assist::Kind kind = is_write ? Assist::atomic_write
                              : request.operation == Operation::compare_and_swap
                                  ? Assist::compare_and_swap
                                  : Assist::fetch_and_add;
    SendRequest asked = request;
    if (is_write) asked.compare_add = value;
    const Outcome outcome = assist(asked, kind, request.remote_address, raw(request.remote_key));
    if (outcome != Outcome::completed || status_ != Status::success) return outcome;
    original = at_->target().assist.original;
  }
  if (is_write || write_local(local, original)) return serve(request);
  return complete(Status::local_protection_error);
}

}  // namespace verbatim::adapter
