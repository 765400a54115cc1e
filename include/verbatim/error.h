#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace verbatim {

/// The call that failed: what the program did, not which function of the C interface refused it.
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

/// What a request does. Named in each completion and in each failure of a request.
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

/// How a request or a call ended. The values from `local_length` on are those of completions
/// (IBA volume 1, section 11.6.2), which `ibv_wc_status` numbers.
enum class Status : std::uint8_t {
  success,
  refused,       ///< The call was refused: `code` is the errno value.
  queue_full,    ///< The send or receive queue holds as many requests as it was made for.
  out_of_range,  ///< A slice or a region token does not lie within its memory.
  timed_out,     ///< The caller's time is over. The request itself goes on.
  cancelled,     ///< The queue pair was destroyed before the request completed.
  disconnected,  ///< The peer ended the connection.
  bad_format,    ///< Bytes that are no region token, or a peer that speaks something else.
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

/// Why something failed, as a value of a few words: copying it allocates nothing. `message()` puts
/// it into a sentence.
struct Failure {
  Call call = Call::none;
  Operation operation = Operation::none;
  Status status = Status::success;
  int code = 0;                    ///< errno of a refused call, `ibv_wc_status` of a request.
  std::uint32_t queue_pair = 0;    ///< Number of the queue pair, 0 where there is none.
  std::uint32_t vendor_error = 0;  ///< Of a completion, as the adapter gave it.
  const char* detail = "";         ///< What exactly, in words. Static storage.

  /// Which call, which queue pair, which status, in words, and what usually causes it:
  /// `write on queue pair 0x11: remote access error (10): the peer's region token does not cover
  /// these bytes, lacks the right, or its memory is no longer registered`.
  std::string message() const;
};

/// Names in words: `remote access error`.
std::string_view to_string(Call call);
std::string_view to_string(Operation operation);
std::string_view to_string(Status status);

/// What usually causes a status. Empty where the status says it all.
std::string_view usual_cause(Status status);

/// A failure, thrown: by `Result::value()` alone. Nothing else in this library throws, but
/// `std::bad_alloc`.
class Error : public std::runtime_error {
 public:
  explicit Error(const Failure& failure) : runtime_error(failure.message()), failure_(failure) {}
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

}  // namespace verbatim
