#include "link/capture_file/pcapng.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace verbatim::link::pcapng {
namespace {

enum BlockType : std::uint32_t {
  kSectionHeader = 0x0a0d0d0a,
  kInterfaceDescription = 1,
  kInterfaceStatistics = 5,
  kEnhancedPacket = 6,
};

/// The meaning of an option's number depends on its block.
enum Option : std::uint16_t {
  kEndOfOptions = 0,
  kComment = 1,
  kSectionApplication = 4,
  kInterfaceName = 2,
  kInterfaceDescriptionText = 3,
  kInterfaceTimeResolution = 9,
  kPacketFlags = 2,
  kStatisticsReceived = 4,
  kStatisticsDropped = 5,
};

constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint8_t kNanoseconds = 9;  // 10^-9 s.
constexpr std::uint32_t kInbound = 1, kOutbound = 2, kCrcError = 1u << 24;
constexpr std::uint32_t kPacketBytesMax = 1 << 18;
constexpr std::size_t kOptionBytesMax = 0xffff;

/// A block under construction; the destructor writes its length at both ends.
class Block {
 public:
  Block(std::vector<std::byte>& out, BlockType type) : out_(out), start_(out.size()) {
    add<std::uint32_t>(type);
    add<std::uint32_t>(0);  // The length; written at the end.
  }
  ~Block() {
    const auto length = static_cast<std::uint32_t>(out_.size() - start_ + sizeof(std::uint32_t));
    add(length);
    std::memcpy(&out_[start_ + sizeof(std::uint32_t)], &length, sizeof length);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  template <typename T>
  void add(T value) {
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void add_bytes(ByteSpan bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void pad() { out_.resize((out_.size() + 3) & ~std::size_t{3}); }

  void add_option(Option option, ByteSpan value) {
    value = value.first(std::min(value.size(), kOptionBytesMax));
    add<std::uint16_t>(option);
    add(static_cast<std::uint16_t>(value.size()));
    add_bytes(value);
    pad();
  }
  void add_option(Option option, std::string_view text) {
    if (!text.empty()) add_option(option, std::as_bytes(std::span(text)));
  }
  template <typename T>
  void add_number(Option option, T value) {
    add_option(option, std::as_bytes(std::span(&value, 1)));
  }
  void end_options() { add<std::uint32_t>(kEndOfOptions); }

  void add_time(TimeNs time) {
    add(static_cast<std::uint32_t>(time >> 32));
    add(static_cast<std::uint32_t>(time));
  }

 private:
  std::vector<std::byte>& out_;
  const std::size_t start_;  // Blocks are multiples of four bytes long, so `pad` counts from 0.
};

}  // namespace

void append_section(std::vector<std::byte>& out, std::string_view application) {
  Block block(out, kSectionHeader);
  block.add(kByteOrderMagic);
  block.add<std::uint16_t>(1);  // Version 1.0.
  block.add<std::uint16_t>(0);
  block.add(~std::uint64_t{0});  // The section's length: unknown.
  block.add_option(kSectionApplication, application);
  block.end_options();
}

void append_interface(std::vector<std::byte>& out, const Interface& interface) {
  Block block(out, kInterfaceDescription);
  block.add(static_cast<std::uint16_t>(interface.type));
  block.add<std::uint16_t>(0);
  block.add(kPacketBytesMax);
  block.add_option(kInterfaceName, interface.name);
  block.add_option(kInterfaceDescriptionText, interface.description);
  block.add_number(kInterfaceTimeResolution, kNanoseconds);
  block.end_options();
}

void append_packet(std::vector<std::byte>& out, const Packet& packet) {
  const auto length = static_cast<std::uint32_t>(packet.headers.size() + packet.bytes.size() +
                                                 packet.trailer.size());
  Block block(out, kEnhancedPacket);
  block.add(packet.interface);
  block.add_time(packet.time);
  block.add(length);  // Captured length,
  block.add(length);  // and original length.
  block.add_bytes(packet.headers);
  block.add_bytes(packet.bytes);
  block.add_bytes(packet.trailer);
  block.pad();
  block.add_option(kComment, packet.comment);
  block.add_number(kPacketFlags, (packet.direction == Direction::send ? kOutbound : kInbound) |
                                     (packet.has_wrong_crc ? kCrcError : 0));
  block.end_options();
}

void append_statistics(std::vector<std::byte>& out, const Statistics& statistics) {
  Block block(out, kInterfaceStatistics);
  block.add(statistics.interface);
  block.add_time(statistics.time);
  block.add_number(kStatisticsReceived, statistics.received);
  block.add_number(kStatisticsDropped, statistics.dropped);
  block.end_options();
}

}  // namespace verbatim::link::pcapng
