#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

/// Messages of netlink sockets (RFC 3549, section 2.3; netlink(7)), in the machine's byte order.
namespace verbatim::wire::netlink {

/// Before each message; a datagram may have several, each aligned to 4 bytes.
///
///     byte 0        4      6       8          12     16
///          +--------+------+-------+----------+------+------------+
///          | length | type | flags | sequence | port | attributes |
///          +--------+------+-------+----------+------+------------+
struct Header {
  static constexpr std::size_t kSize = 16;
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;
  std::uint32_t port = 0;  // Of the program's socket.
  friend bool operator==(const Header&, const Header&) = default;
};

struct Message {
  Header header;
  ByteSpan bytes;  // With the header, without padding.
  ByteSpan attributes() const { return bytes.subspan(Header::kSize); }
};

/// Takes the first message off the front of `bytes`. None if there is no whole one.
std::optional<Message> take_message(ByteSpan& bytes);

/// Length (of header and value), type, value; the next one begins at a multiple of 4.
struct Attribute {
  static constexpr std::size_t kHeaderSize = 4;
  std::uint16_t type = 0;  // Without the two flags in its upper bits.
  ByteSpan value;

  /// None if the value is shorter. As the kernel, reads the first bytes of a longer one.
  template <typename T>
  std::optional<T> number() const {
    static_assert(std::is_integral_v<T>);
    if (value.size() < sizeof(T)) return std::nullopt;
    T number;
    std::memcpy(&number, value.data(), sizeof number);
    return number;
  }
  /// The text without its zero; none if there is no zero.
  std::optional<std::string_view> text() const;
};

/// Takes the first attribute off the front of `bytes`. None at the end, or if its length is wrong.
std::optional<Attribute> take_attribute(ByteSpan& bytes);

/// One message being written. Lengths are filled in by `finish` and `end_nest`.
class MessageWriter {
 public:
  explicit MessageWriter(const Header& header);

  void put(std::uint16_t type, ByteSpan value);
  void put_text(std::uint16_t type, std::string_view text);  // With a zero.
  template <typename T>
  void put_number(std::uint16_t type, T number) {
    static_assert(std::is_integral_v<T>);
    put(type, std::as_bytes(std::span(&number, 1)));
  }
  /// Bytes outside of attributes: the body of an answer of netlink itself.
  void put_raw(ByteSpan bytes);
  /// Attributes from here on are the value of this one. Returns what `end_nest` takes.
  std::size_t begin_nest(std::uint16_t type);
  void end_nest(std::size_t nest);

  std::size_t size() const { return bytes_.size(); }
  /// Takes back what was put since the writer had this size.
  void cut(std::size_t size) { bytes_.resize(size); }
  std::vector<std::byte> finish() &&;

 private:
  template <typename T>
  void append(T number) {
    const auto* const start = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), start, start + sizeof number);
  }
  void align();
  std::vector<std::byte> bytes_;
};

}  // namespace verbatim::wire::netlink
