#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/types.h"

/// What programs and commands say to a fabric's daemon over its socket (SOCK_SEQPACKET): one
/// structure a message, in the machine's byte order. Each request is answered by what stands behind
/// it, or by a Refusal.
///
///     HostRequest                 HostDescription
///     WatchHost                   HostDescription, and again at each change of it
///     GidRequest                  HostGid: of the host with an IP address
///     ViewRequest                 HostDescription; the view is written
///     IssmRequest                 IssmPath
///     StatusRequest               Status, with a memfd of JSON text
///     TablesRequest               Status, with a memfd of JSON text
///     LinkRequest                 Done
///     TrunkRequest (trunk_message.h)  Done
///     CaptureRequest              Capturing, with the memory of the data path
///     StopRequest                 the daemon ends
///     OpenPort                    Opened; the connection is an open port then
///     AttachData                  DataAttached, with the memory of the data path; the connection
///                                 is a program's end of the fabric then
///
/// On an end, which is the program's as long as the connection lives and the process that made it:
///
///     JoinGroup                   Done
///     BadKeyReport                no answer
///
/// On an open port, whose end makes the daemon forget its agents:
///
///     RegisterAgent, a socket     Registered, from that socket
///     UnregisterAgent, a socket   Done, from that socket
///     SentMad, a datagram         no answer
///     JoinMulticast               MulticastMember, later; and again at each change of the group
///     LeaveMulticast              no answer
///
/// and the daemon sends ReceivedMad with a datagram at any time.
namespace verbatim::fabric::protocol {

/// Counts up with every change of a structure below.
inline constexpr std::uint16_t kVersion = 4;

enum class MessageType : std::uint16_t {
  host_request = 1,
  view_request,
  issm_request,
  status_request,
  stop_request,
  open_port,
  register_agent,
  unregister_agent,
  sent_mad,
  attach_data,
  join_group,
  watch_host,
  gid_request,
  link_request,
  tables_request,
  bad_key_report,
  join_multicast,
  leave_multicast,
  capture_request,
  trunk_request,
  host_description = 0x100,
  done,
  status,
  opened,
  registered,
  received_mad,
  issm_path,
  refusal,
  data_attached,
  host_gid,
  multicast_member,
  capturing,
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  MessageType type{};
  static constexpr std::uint32_t kMagic = 0x56726246;  // "VrbF"
};

/// A host's NodeDescription, or its GUID as "0x...". Ends with a zero, as all texts here do.
using HostName = std::array<char, 65>;
inline constexpr std::size_t kPortsMax = 9;      // That libibumad can tell of.
inline constexpr std::size_t kPKeysMax = 128;    // Of a port.
inline constexpr std::uint32_t kAgentsMax = 32;  // Of an open port.

struct HostRequest {
  static constexpr MessageType kType = MessageType::host_request;
  Header header{.type = kType};
  HostName host{};
};

/// By the host's agent: the daemon's status names it.
struct WatchHost {
  static constexpr MessageType kType = MessageType::watch_host;
  Header header{.type = kType};
  HostName host{};
};

struct GidRequest {
  static constexpr MessageType kType = MessageType::gid_request;
  Header header{.type = kType};
  std::array<std::uint8_t, 4> address{};
};

/// Writes the host's view of /sys if there is none yet.
struct ViewRequest {
  static constexpr MessageType kType = MessageType::view_request;
  Header header{.type = kType};
  HostName host{};
};

/// Makes the file by which a program says that a subnet manager runs on a port.
struct IssmRequest {
  static constexpr MessageType kType = MessageType::issm_request;
  Header header{.type = kType};
  HostName host{};
  std::uint8_t port = 0;
};

struct StatusRequest {
  static constexpr MessageType kType = MessageType::status_request;
  Header header{.type = kType};
};

/// Changes the cable at a port: takes it out, puts it in again as good as new,
/// makes it carry less, or makes bits wrong.
struct LinkRequest {
  static constexpr MessageType kType = MessageType::link_request;
  Header header{.type = kType};
  enum class Change : std::uint8_t { down, up, degrade, errors };
  HostName node{};  // A host, switch or router.
  std::uint8_t port = 0;
  Change change{};
  std::uint8_t width = 0;  // A LinkWidth; 0: as now. Counts for `degrade` alone, as does `speed`.
  std::uint8_t speed = kSameSpeed;  // A LinkSpeed.
  static constexpr std::uint8_t kSameSpeed = 0xff;
  double bit_error_rate = 0;  // Of `errors`.
};

/// Packets that cross the cable at a port, or all cables if `node` is empty, go to the tap of the
/// data path's memory as long as the connection lives.
struct CaptureRequest {
  static constexpr MessageType kType = MessageType::capture_request;
  Header header{.type = kType};
  HostName node{};  // A host, switch or router.
  std::uint8_t port = 0;
};

struct TablesRequest {
  static constexpr MessageType kType = MessageType::tables_request;
  Header header{.type = kType};
};

struct StopRequest {
  static constexpr MessageType kType = MessageType::stop_request;
  Header header{.type = kType};
};

struct OpenPort {
  static constexpr MessageType kType = MessageType::open_port;
  Header header{.type = kType};
  HostName host{};
  std::uint8_t port = 0;
};

/// Asks for an end of the data path (fabric/data/) at a port of a host. Packets to the 2^14 queue
/// pair numbers whose upper 10 bits are `qpn_range` come to it.
struct AttachData {
  static constexpr MessageType kType = MessageType::attach_data;
  Header header{.type = kType};
  HostName host{};
  std::uint8_t port = 0;
  std::uint32_t qpn_range = 0;
};

/// The end receives the packets of a multicast group, or no longer.
struct JoinGroup {
  static constexpr MessageType kType = MessageType::join_group;
  Header header{.type = kType};
  std::uint16_t lid = 0;
  std::uint8_t is_member = 0;
};

/// `count` packets with a P_Key or Q_Key that does not match have come; the fields are the last
/// one's, as trap 257 or 258 has them.
struct BadKeyReport {
  static constexpr MessageType kType = MessageType::bad_key_report;
  Header header{.type = kType};
  std::uint8_t is_q_key = 0;
  std::uint8_t service_level = 0;
  std::uint16_t count = 0;
  std::uint32_t key = 0;
  std::uint16_t source_lid = 0;
  std::uint16_t destination_lid = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t destination_qpn = 0;
  Gid source_gid{};
  Gid destination_gid{};
};

struct RegisterAgent {
  static constexpr MessageType kType = MessageType::register_agent;
  Header header{.type = kType};
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t rmpp_version = 0;
  std::uint8_t has_own_rmpp = 0;  // The program does RMPP by itself.
  std::uint32_t oui = 0;
  std::array<std::uint64_t, 2> methods{};  // Bit N of both together: method N.
};

struct UnregisterAgent {
  static constexpr MessageType kType = MessageType::unregister_agent;
  Header header{.type = kType};
  std::uint32_t agent = 0;
};

/// Where a datagram goes to, or comes from.
struct MadAddress {
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;
  std::uint16_t lid = 0;
  std::uint16_t pkey_index = 0;
  std::uint32_t flow_label = 0;
  std::array<std::uint8_t, 16> gid{};
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;
  std::uint8_t has_grh = 0;
  std::uint8_t gid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  friend bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// What stands before a datagram in both directions.
struct MadRecord {
  std::uint32_t agent = 0;
  std::uint32_t status = 0;  // Of one received: 0, or the errno value by which its request failed.
  std::uint32_t timeout_ms = 0;
  std::uint32_t retries = 0;
  std::uint32_t length = 0;  // Bytes of the datagram.
  MadAddress address;
};

/// The datagram follows, or lies in a memfd beside the message if it is longer than kInlineBytes.
struct SentMad {
  static constexpr MessageType kType = MessageType::sent_mad;
  Header header{.type = kType};
  MadRecord record;
};
struct ReceivedMad {
  static constexpr MessageType kType = MessageType::received_mad;
  Header header{.type = kType};
  MadRecord record;
};
inline constexpr std::uint32_t kInlineBytes = 64 * 1024;
/// Of a datagram that RMPP has put together: the records of all paths of some thousand hosts.
inline constexpr std::uint32_t kMadBytesMax = 64 * 1024 * 1024;
/// Header of the datagram and of RMPP: fewer bytes are no datagram.
inline constexpr std::uint32_t kMadBytesMin = 36;

/// An MCMemberRecord as it is on the wire (wire/subnet/multicast_record.h).
using MulticastRecordBytes = std::array<std::uint8_t, 52>;

/// The port joins the group, if it is not in it yet for another program, and stays until the
/// program leaves or its open port ends. The daemon fills in the port's GID.
struct JoinMulticast {
  static constexpr MessageType kType = MessageType::join_multicast;
  Header header{.type = kType};
  std::uint32_t membership = 0;  // The program's choice, among its memberships.
  std::uint64_t components = 0;  // Those of the record that count.
  MulticastRecordBytes record{};
};

struct LeaveMulticast {
  static constexpr MessageType kType = MessageType::leave_multicast;
  Header header{.type = kType};
  std::uint32_t membership = 0;
};

struct MulticastMember {
  static constexpr MessageType kType = MessageType::multicast_member;
  Header header{.type = kType};
  std::uint32_t membership = 0;
  std::int32_t error = 0;  // An errno value: it is no member, or no longer.
  MulticastRecordBytes record{};
};

struct PortDescription {
  std::uint64_t gid_prefix = 0;
  std::uint64_t guid = 0;
  std::uint32_t capabilities = 0;
  std::uint32_t rate_mbps = 0;        // 0: it has no link.
  std::uint32_t reregistrations = 0;  // Times that a subnet manager has asked for them.
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;
  std::uint8_t lmc = 0;
  std::uint8_t sm_service_level = 0;
  std::uint8_t state = 0;
  std::uint8_t physical_state = 0;
  std::uint8_t width = 0;  // A bit, as PortInfo and `ibv_port_attr` have it.
  std::uint8_t mtu = 0;    // 1 to 5: 256 to 4,096 bytes.
  std::uint8_t mtu_max = 0;
  std::uint8_t virtual_lanes = 0;  // 1 to 5: 1, 2, 4, 8, 15.
  std::uint8_t subnet_timeout = 0;
  std::uint8_t init_type_reply = 0;
  std::uint16_t speed = 0;      // A bit, as `ibv_port_attr` has it: 1 SDR, 2 DDR, 4 QDR, 8 FDR10...
  std::array<char, 24> rate{};  // "100 Gb/sec (4X EDR)"
  std::uint32_t pkey_count = 0;
  std::array<std::uint16_t, kPKeysMax> pkeys{};
};

struct HostDescription {
  static constexpr MessageType kType = MessageType::host_description;
  Header header{.type = kType};
  std::uint64_t guid = 0;
  std::uint64_t system_image_guid = 0;
  std::uint64_t fabric_id = 0;  // Of this run of the daemon: another one has another.
  std::array<char, 20> device{};
  std::array<char, 20> firmware{};
  std::array<char, 40> hca_type{};
  std::array<char, 20> hardware{};
  HostName name{};
  std::array<std::uint8_t, 4> address{};  // IPv4, of the first port; zeros: it has none.
  std::uint32_t port_count = 0;
  std::array<PortDescription, kPortsMax> ports{};  // Port 1 first.
};

struct Done {
  static constexpr MessageType kType = MessageType::done;
  Header header{.type = kType};
};

struct HostGid {
  static constexpr MessageType kType = MessageType::host_gid;
  Header header{.type = kType};
  std::array<std::uint8_t, 16> gid{};
};

struct IssmPath {
  static constexpr MessageType kType = MessageType::issm_path;
  Header header{.type = kType};
  std::array<char, 256> path{};
};

struct Status {
  static constexpr MessageType kType = MessageType::status;
  Header header{.type = kType};
  std::uint64_t size = 0;
};

struct Opened {
  static constexpr MessageType kType = MessageType::opened;
  Header header{.type = kType};
};

struct Registered {
  static constexpr MessageType kType = MessageType::registered;
  Header header{.type = kType};
  std::uint32_t agent = 0;
};

/// `end` of the memory whose descriptor is beside it.
struct DataAttached {
  static constexpr MessageType kType = MessageType::data_attached;
  Header header{.type = kType};
  std::uint32_t end = 0;
};

/// The memory's descriptor is beside it.
struct Capturing {
  static constexpr MessageType kType = MessageType::capturing;
  Header header{.type = kType};
};

struct Refusal {
  static constexpr MessageType kType = MessageType::refusal;
  Header header{.type = kType};
  std::int32_t code = 0;
  std::array<char, 508> text{};
};

}  // namespace verbatim::fabric::protocol
