#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace verbatim::inline v1 {

/// The call that failed, as the program made it, not the function of the C interface that refused
/// it.
enum class Call : std::uint8_t {
  none,
  open_device,
  query_device,
  allocate_domain,
  register_memory,
  make_completion_queue,
  make_receive_queue,
  make_queue_pair,
  change_queue_pair,
  make_address,
  listen,
  connect,
  accept,
  exchange,
  post,
  wait,
};

/// The operation of a request. Part of each completion and of each request's failure.
enum class Operation : std::uint8_t {
  none,
  send,
  send_with_immediate,
  write,
  write_with_immediate,
  read,
  compare_and_swap,
  fetch_and_add,
  receive,
};

/// Result of a request or a call. The values from `local_length` on are those of completions (IBA
/// volume 1, section 11.6.2), which `ibv_wc_status` numbers.
enum class Status : std::uint8_t {
  success,
  refused,       ///< The call was refused: `code` is the errno value.
  queue_full,    ///< The send or receive queue is full.
  out_of_range,  ///< A slice or a region token is not within its memory.
  timed_out,     ///< The caller's time limit is over. The request continues.
  cancelled,     ///< The queue pair was destroyed before the request completed.
  disconnected,  ///< The peer ended the connection.
  bad_format,    ///< The bytes are no region token, or the peer uses another protocol.
  local_length,
  local_queue_pair_operation,
  local_protection,
  flushed,
  window_bind,
  bad_response,
  local_access,
  remote_invalid_request,
  remote_access,
  remote_operation,
  transport_retries_exceeded,
  receiver_not_ready_retries_exceeded,
  remote_aborted,
  other,
};

/// The reason of a failure, as a small value: copying it allocates nothing. `message()` puts it
/// into a sentence.
struct Failure {
  Call call = Call::none;
  Operation operation = Operation::none;
  Status status = Status::success;
  int code = 0;                    ///< Errno of a refused call, `ibv_wc_status` of a request.
  std::uint32_t queue_pair = 0;    ///< Number of the queue pair; 0: none.
  std::uint32_t vendor_error = 0;  ///< From a completion, as the adapter gave it.
  const char* detail = "";         ///< Details in words. Static storage.

  /// Returns call, queue pair and status in words, and the usual cause: `write on queue pair 0x11:
  /// remote access error (10): the peer's region token does not cover these bytes, lacks the right,
  /// or its memory is no longer registered`.
  std::string message() const;
};

/// Return names in words: `remote access error`.
std::string_view to_string(Call call);
std::string_view to_string(Operation operation);
std::string_view to_string(Status status);

/// Returns the usual cause of a status; empty if the status says it all.
std::string_view usual_cause(Status status);

/// A failure as an exception. Only `Result::value()` throws it; apart from `std::bad_alloc`,
/// nothing else in this library throws.
class Error : public std::runtime_error {
 public:
  explicit Error(const Failure& failure) : runtime_error(failure.message()), failure_(failure) {}
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

}  // namespace verbatim::inline v1
