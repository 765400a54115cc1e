#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "ulp/engine/meeting.h"
#include "ulp/nvmeof/wire/command.h"

/// How a queue begins: the private data of its connection (NVMe over Fabrics 1.1, section 7.3.6),
/// and the fabrics commands (section 3).
namespace verbatim::ulp::nvmeof {

/// The longest NQN, with its final zero (base specification 1.4, section 7.9).
inline constexpr std::size_t kNqnMax = 223;
inline constexpr std::string_view kDiscoveryNqn = "nqn.2014-08.org.nvmexpress.discovery";

/// Private data of the request. 32 bytes; sizes as in the structure, but the send queue's, which
/// is one less on the wire.
///
///     byte 0-1      2-3        4-5                6-7                    8-31
///         +--------+----------+------------------+----------------------+----------+
///         | format | queue id | receives of host | commands of host - 1 | reserved |
///         +--------+----------+------------------+----------------------+----------+
struct QueueRequest {
  static constexpr std::size_t kSize = 32;
  std::uint16_t format = 0;
  std::uint16_t queue_id = 0;
  std::uint16_t receives = 0;  // HRQSIZE: responses that the host can take.
  std::uint32_t commands = 0;  // HSQSIZE + 1: entries of the submission queue.
  friend bool operator==(const QueueRequest&, const QueueRequest&) = default;
};
std::expected<QueueRequest, WireError> decode_queue_request(ByteSpan bytes);
PrivateData encode(const QueueRequest& request);

/// Private data of the answer: how many commands the target can take.
PrivateData encode_queue_reply(std::uint16_t receives);

/// Why a queue's connection is rejected (figure 54): bytes 2-3 of the rejection's private data.
enum class QueueRejection : std::uint16_t {
  none = 0,
  length = 1,
  format = 2,
  queue_id = 3,
  commands = 4,
  receives = 5,
  no_resources = 6,
  reads_as_responder = 7,
  reads_as_initiator = 8,
};
PrivateData encode(QueueRejection rejection);
QueueRejection decode_queue_rejection(ByteSpan bytes);

enum class FabricsType : std::uint8_t { property_set = 0x00, connect = 0x01, property_get = 0x04 };
FabricsType fabrics_type(const AdminCommand& command);

/// The Connect command, after its first 40 bytes (section 3.3).
///
///     byte 40-41    42-43      44-45          46           48-51
///         +--------+----------+--------------+------------+-----------------+
///         | format | queue id | commands - 1 | attributes | keep alive (ms) |
///         +--------+----------+--------------+------------+-----------------+
struct ConnectCommand {
  static constexpr std::size_t kFormatAt = 40, kQueueIdAt = 42, kCommandsAt = 44;
  std::uint16_t format = 0;
  std::uint16_t queue_id = 0;
  std::uint32_t commands = 0;
  std::uint32_t keep_alive_ms = 0;
};
ConnectCommand connect_of(const AdminCommand& command);
void put_connect(const ConnectCommand& connect, AdminCommand& command);

/// Its data: who the host is, and what it wants.
///
///     byte 0-15      16-17          256-511         512-767
///         +---------+--------------+---------------+----------+
///         | host id | controller   | subsystem NQN | host NQN |
///         +---------+--------------+---------------+----------+
struct ConnectData {
  static constexpr std::size_t kSize = 1024;
  static constexpr std::size_t kControllerAt = 16, kSubsystemAt = 256, kHostAt = 512;
  static constexpr std::uint16_t kAnyController = 0xffff;
  std::array<std::byte, 16> host_id{};
  std::uint16_t controller_id = kAnyController;
  std::string subsystem;  // Empty: not ended by a zero, or too long.
  std::string host;
  friend bool operator==(const ConnectData&, const ConnectData&) = default;
};
std::expected<ConnectData, WireError> decode_connect_data(ByteSpan bytes);
void encode(const ConnectData& data, std::span<std::byte, ConnectData::kSize> out);

/// Registers of a controller, which hosts of a fabric read and write by commands (section 3.5).
enum class Property : std::uint32_t {
  capabilities = 0x00,   // 8 bytes, as all others 4.
  version = 0x08,        //
  configuration = 0x14,  // CC
  status = 0x1c,         // CSTS
};
struct PropertyAccess {
  Property property{};
  bool is_8_bytes = false;
  std::uint64_t value = 0;  // Set.
};
PropertyAccess property_of(const AdminCommand& command);
void put_property(FabricsType type, const PropertyAccess& access, AdminCommand& command);

}  // namespace verbatim::ulp::nvmeof
