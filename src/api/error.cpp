#include "verbatim/error.h"

#include <array>
#include <cstring>

#include <infiniband/verbs.h>

#include "api/handles.h"
#include "api/queue.h"
#include "verbatim/result.h"

namespace verbatim::inline v1 {
namespace {

constexpr std::array<std::string_view, 16> kCalls{
    "",
    "opening a device",
    "asking the device",
    "allocating a protection domain",
    "registering memory",
    "making a completion queue",
    "making a shared receive queue",
    "making a queue pair",
    "changing a queue pair",
    "making an address handle",
    "listening",
    "connecting",
    "accepting",
    "exchanging addresses",
    "posting",
    "waiting",
};

constexpr std::array<std::string_view, 9> kOperations{
    "",
    "send",
    "send with immediate",
    "write",
    "write with immediate",
    "read",
    "compare and swap",
    "fetch and add",
    "receive",
};

struct StatusRow {
  Status status;
  ibv_wc_status code;  // IBV_WC_GENERAL_ERR: not from a completion.
  std::string_view name;
  std::string_view cause;
};
constexpr StatusRow kStatuses[] = {
    {Status::success, IBV_WC_SUCCESS, "success", ""},
    {Status::refused, IBV_WC_GENERAL_ERR, "refused", ""},
    {Status::queue_full, IBV_WC_GENERAL_ERR, "queue full", ""},
    {Status::out_of_range, IBV_WC_GENERAL_ERR, "out of range", ""},
    {Status::timed_out, IBV_WC_GENERAL_ERR, "timed out", ""},
    {Status::cancelled, IBV_WC_GENERAL_ERR, "cancelled", ""},
    {Status::disconnected, IBV_WC_GENERAL_ERR, "disconnected", ""},
    {Status::bad_format, IBV_WC_GENERAL_ERR, "bad format", ""},
    {Status::local_length, IBV_WC_LOC_LEN_ERR, "local length error",
     "a message is longer than the receive that it came to, or than the adapter sends"},
    {Status::local_queue_pair_operation, IBV_WC_LOC_QP_OP_ERR, "local queue pair operation error",
     "the adapter cannot do this on this queue pair in its state"},
    {Status::local_protection, IBV_WC_LOC_PROT_ERR, "local protection error",
     "local memory is no longer registered, of another protection domain, or lacks the right "
     "(receives and reads need "
     "local_write)"},
    {Status::flushed, IBV_WC_WR_FLUSH_ERR, "flushed",
     "an earlier request failed, or the connection ended: look at the first failure"},
    {Status::window_bind, IBV_WC_MW_BIND_ERR, "memory window bind error", ""},
    {Status::bad_response, IBV_WC_BAD_RESP_ERR, "bad response",
     "the peer's adapter answered something else"},
    {Status::local_access, IBV_WC_LOC_ACCESS_ERR, "local access error",
     "a write with immediate came to a receive that does not allow it"},
    {Status::remote_invalid_request, IBV_WC_REM_INV_REQ_ERR, "remote invalid request",
     "the message is longer than the peer's receive, or the peer does not take this operation, or "
     "not at this address (atomic operations: a multiple of 8)"},
    {Status::remote_access, IBV_WC_REM_ACCESS_ERR, "remote access error",
     "the peer's region token does not cover these bytes, lacks the right, or its memory is no "
     "longer registered"},
    {Status::remote_operation, IBV_WC_REM_OP_ERR, "remote operation error",
     "the peer could not complete it: its receive queue failed"},
    {Status::transport_retries_exceeded, IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded",
     "the peer does not answer: its program ended, the network lost too much, or the path MTU is "
     "too large"},
    {Status::receiver_not_ready_retries_exceeded, IBV_WC_RNR_RETRY_EXC_ERR,
     "receiver not ready, retry counter exceeded",
     "the peer has posted no receive for this message"},
    {Status::remote_aborted, IBV_WC_REM_ABORT_ERR, "remote aborted",
     "the peer ended the operation"},
    {Status::other, IBV_WC_GENERAL_ERR, "error of the adapter", ""},
};

const StatusRow& row_of(Status status) {
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) return row;
  }
  return kStatuses[std::size(kStatuses) - 1];
}

}  // namespace

void throw_error(const Failure& failure) { throw Error(failure); }

std::string_view to_string(Call call) { return kCalls[static_cast<std::size_t>(call)]; }
std::string_view to_string(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}
std::string_view to_string(Status status) { return row_of(status).name; }
std::string_view usual_cause(Status status) { return row_of(status).cause; }

std::string Failure::message() const {
  std::string text(to_string(call));
  if (operation != Operation::none) {
    if (!text.empty()) text += " a ";
    text += to_string(operation);
  }
  if (text.empty()) text = "verbatim";
  if (queue_pair != 0) {
    char number[32];
    std::snprintf(number, sizeof number, " on queue pair 0x%x", queue_pair);
    text += number;
  }
  text += ": ";
  text += to_string(status);
  const bool is_errno = status == Status::refused || status == Status::queue_full;
  if (is_errno && code != 0) {
    text += " (";
    text += std::strerror(code);
    text += ")";
  } else if (!is_errno && code != 0) {
    text += " (" + std::to_string(code) + ")";
  }
  const std::string_view why = *detail != '\0' ? std::string_view(detail) : usual_cause(status);
  if (!why.empty()) {
    text += ": ";
    text += why;
  }
  return text;
}

namespace detail {

Failure refused(Call call, int code, const char* detail) {
  return {.call = call, .status = Status::refused, .code = code, .detail = detail};
}

Status status_of(ibv_wc_status status) {
  for (const StatusRow& row : kStatuses) {
    if (row.code == status && row.code != IBV_WC_GENERAL_ERR) return row.status;
  }
  return Status::other;
}

}  // namespace detail
}  // namespace verbatim::inline v1
