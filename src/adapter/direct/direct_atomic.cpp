#include <cstring>
#include <span>

#include "adapter/direct/direct_link.h"
#include "adapter/direct/execute.h"
#include "adapter/memory/scatter.h"
#include "region/held_memory.h"
#include "transport/ib/responder/responder_checks.h"

/// Atomic operations on the direct path, and requests that only the owner can execute.
namespace verbatim::adapter {

using transport::Operation;
using transport::SendRequest;
using transport::Status;

namespace {

using Done = std::expected<void, region::KeyError>;

OwnerRequest::Kind kind_of(Operation operation) {
  switch (operation) {
    case Operation::compare_and_swap:
      return OwnerRequest::compare_and_swap;
    case Operation::fetch_and_add:
      return OwnerRequest::fetch_and_add;
    default:
      return OwnerRequest::atomic_write;
  }
}

/// Calls `use` to read or write the 8 bytes of an atomic operation on this side.
template <typename Bytes, typename Use>
bool with_local(const LocalMemory& local, Bytes bytes, std::uint32_t right, Use use) {
  const auto move = [&](MemoryKey key, std::uint64_t iova, std::uint32_t length) -> Done {
    const auto here = local.find_locked(key, iova, length, right);
    if (!here) return std::unexpected(here.error());
    if (!use(*here, bytes.first(length))) return std::unexpected(region::KeyError::not_mapped);
    bytes = bytes.subspan(length);
    return {};
  };
  return for_each_piece(local.segments, 0, bytes.size(), move).has_value();
}

bool read_local(const LocalMemory& local, std::uint64_t& value) {
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  if (local.inlined.empty()) return with_local(local, bytes, region::kLocalRead, region::read_held);
  std::memcpy(bytes.data(), local.inlined.data(), bytes.size());
  return true;
}

bool write_local(const LocalMemory& local, std::uint64_t value) {
  return with_local(local, std::as_bytes(std::span(&value, 1)), region::kLocalWrite,
                    region::write_held);
}

}  // namespace

/// Sends a request to the owner, and calls `complete(success)` after the owner has executed it.
DirectLink::Outcome DirectLink::request_owner(const OwnerRequest& wanted) {
  OwnerRequest& there = at_->target().owner_request;
  switch (there.state.load(std::memory_order_acquire)) {
    case OwnerRequest::none:
      there.ask(wanted);
      begun_ = true;
      at_->notify(kOwnerRequest);
      [[fallthrough]];
    case OwnerRequest::asked:
      if (at_->peer().is_gone()) return no_answer();
      return look_again();
    case OwnerRequest::refused:
      there.state.store(OwnerRequest::none, std::memory_order_relaxed);
      return wanted.kind == OwnerRequest::allocate_proxy ? refuse_request() : refuse_access();
    default:  // Done.
      break;
  }
  there.state.store(OwnerRequest::none, std::memory_order_relaxed);
  return complete(Status::success);
}

DirectLink::Outcome DirectLink::atomic(const SendRequest& request, const LocalMemory& local) {
  const bool is_write = request.operation == Operation::atomic_write;
  if (request.remote_address % 8 != 0) return refuse_request();
  const auto region =
      find_locked(request, 8, transport::right_for(transport::info(request.operation).verb));
  if (!region) return refuse_access();
  std::uint64_t value = 0;
  if (is_write && !read_local(local, value)) return complete(Status::local_protection_error);
  const OwnerRequest wanted{.kind = kind_of(request.operation),
                            .key = raw(request.remote_key),
                            .address = request.remote_address,
                            .compare_add = is_write ? value : request.compare_add,
                            .swap = request.swap};
  std::uint64_t original = 0;
  const bool is_null = ((*region)->access & region::kNull) != 0;
  const std::uint64_t there = address_in(**region, request.remote_address);
  // An owner that has been asked answers, also if the word has moved into its file meanwhile.
  std::uint64_t* const word = is_null || begun_ ? nullptr : at_->word(**region, there);
  if (word != nullptr) {
    original = apply(*word, wanted);
  } else if (!is_null) {
    const Outcome outcome = request_owner(wanted);
    if (outcome != Outcome::completed || status_ != Status::success) return outcome;
    original = at_->target().owner_request.original;
  }
  if (is_write || write_local(local, original)) return serve(request);
  return complete(Status::local_protection_error);
}

}  // namespace verbatim::adapter
