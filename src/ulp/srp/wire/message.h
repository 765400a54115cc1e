#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/types.h"
#include "ulp/engine/slice.h"

/// SRP's information units, a SEND each (SRP r16a; immediate data: SRP-2). All numbers are
/// big-endian; tags are opaque.
namespace verbatim::ulp::srp {

enum class Opcode : std::uint8_t {
  login_request = 0x00,
  task_management = 0x01,
  command = 0x02,
  initiator_logout = 0x03,
  credit_response = 0x41,
  event_response = 0x42,
  target_logout = 0x80,
  credit_request = 0x81,
  event_request = 0x82,
  login_response = 0xc0,
  response = 0xc1,
  login_reject = 0xc2,
};
/// None: no bytes. Any value.
std::optional<Opcode> opcode_of(ByteSpan message);
/// Each has its tag there.
inline constexpr std::size_t kTagAt = 8, kTagEnd = 16;

enum class Format : std::uint8_t { none = 0, direct = 1, indirect = 2, immediate = 3 };

/// A direction's memory, as its command describes it: 16 bytes a range (address, key, length).
///
///     direct      one range
///     indirect    where the table of ranges lies, bytes in all, and the table or its beginning
///     immediate   bytes in all; the data is in the message
struct Buffer {
  static constexpr std::uint32_t kRangeBytes = 16;
  Format format = Format::none;
  std::uint32_t bytes = 0;  // In all.
  RemoteRange table{};      // Indirect.
  ByteSpan ranges{};        // Direct: one.

  /// The message has only the beginning of the table.
  bool needs_table() const { return format == Format::indirect && ranges.size() < table.bytes; }
  std::size_t count() const { return ranges.size() / kRangeBytes; }
  RemoteRange operator[](std::size_t i) const;
  std::uint64_t described_bytes() const;
};

/// SRP_CMD. Its spans point into the message.
///
///     0 opcode, 1 notification, 5 formats, 6 ranges out, 7 ranges in, 8 tag, 20 unit,
///     29 attribute, 31 bytes of more CDB, 32 CDB, 48 more CDB, then buffers: out, in
struct Command {
  static constexpr std::size_t kSize = 48;
  std::uint64_t tag = 0;
  std::uint64_t lun = 0;
  std::uint8_t notification = 0;
  std::uint8_t attribute = 0;
  ByteSpan cdb{};
  Buffer out{}, in{};
  ByteSpan immediate{};  // Of `out`.
};
/// Bits of `notification`: the initiator sleeps until the response to a success, to a failure.
inline constexpr std::uint8_t kNotifySuccess = 0x2, kNotifyFailure = 0x4;

/// What a message said of its buffers that does not fit: "16 bytes of descriptors, 32 expected".
struct BufferFault {
  const char* what = nullptr;  // Null: it is well.
  std::uint64_t said = 0, bound = 0;
};
/// None: shorter than a command's fixed part. `immediate_offset`: of the login; 0: not allowed.
/// With a fault, tag, unit and CDB are right all the same, if they are within the message.
std::optional<Command> decode_command(ByteSpan message, std::uint16_t immediate_offset,
                                      BufferFault& fault);
/// Whether a table holds what it says; for a table that was read, too.
BufferFault check_ranges(const Buffer& buffer);

enum class Function : std::uint8_t {
  abort_task = 0x01,
  abort_task_set = 0x02,
  clear_task_set = 0x04,
  unit_reset = 0x08,
  clear_auto_contingent_allegiance = 0x40,
};
struct TaskManagement {
  static constexpr std::size_t kSize = 48;
  std::uint64_t tag = 0;
  std::uint64_t lun = 0;
  Function function{};
  std::uint64_t task = 0;
  friend bool operator==(const TaskManagement&, const TaskManagement&) = default;
};
std::optional<TaskManagement> decode_management(ByteSpan message);
std::array<std::byte, TaskManagement::kSize> encode(const TaskManagement& request);

/// Of task management.
enum class ResponseCode : std::uint8_t { complete = 0, fields = 2, not_supported = 4, failed = 5 };

struct Response {
  static constexpr std::size_t kSize = 36;
  std::int32_t request_limit = 0;  // A delta.
  std::uint64_t tag = 0;
  std::uint8_t status = 0;
  bool is_solicited = false;
  std::int64_t out_residual = 0, in_residual = 0;  // Over: positive.
  std::optional<ResponseCode> code{};
  ByteSpan sense{};
};
/// With its data: a code or sense, of at most 32 bytes.
class ResponseBytes {
 public:
  static constexpr std::size_t kBytesMax = Response::kSize + 4 + 32;
  void add(ByteSpan bytes) {
    VERBATIM_ASSERT(bytes.size() <= kBytesMax - size_);
    if (!bytes.empty()) std::memcpy(&bytes_[size_], bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  std::size_t size() const { return size_; }
  const std::byte* begin() const { return bytes_.data(); }
  const std::byte* end() const { return bytes_.data() + size_; }

 private:
  std::array<std::byte, kBytesMax> bytes_{};
  std::size_t size_ = 0;
};
ResponseBytes encode(const Response& response);
/// None: shorter than it says. The sense points into the message.
std::optional<Response> decode_response(ByteSpan message);

/// SRP_CRED_REQ, SRP_AER_REQ (with sense), and SRP_T_LOGOUT (whose number is a reason), as the
/// target sends them; and the answers to the first two.
ResponseBytes encode_request(Opcode opcode, std::uint32_t number, std::uint64_t tag,
                             std::uint64_t lun = 0, ByteSpan sense = {});
std::array<std::byte, kTagEnd> encode_answer(Opcode opcode, std::uint64_t tag);
/// Of a message that has one.
std::optional<std::uint64_t> tag_of(ByteSpan message);

}  // namespace verbatim::ulp::srp
