#pragma once

#include <cstdint>

namespace verbatim::wire {

/// Why bytes are not a valid header or packet. The sender broke the rules: the receiver counts the
/// error and drops the packet.
enum class WireError : std::uint8_t {
  too_short,           // Ends within a required header.
  unknown_opcode,      // Not in the table of opcodes.
  transport_version,   // TVer of the BTH is not 0.
  unaligned_length,    // Payload and padding are not a multiple of four bytes.
  bad_padding,         // More padding than bytes, or padding where no payload may be.
  unexpected_payload,  // The opcode has no payload, but the packet does.
  reserved_syndrome,   // An AETH syndrome, or a NAK code, that the specification reserves.
  link_version,        // LVer of the LRH is not 0.
  ip_version,          // Neither version 4 nor version 6.
  ip_header,           // An IPv4 header with options, or a fragment.
  ip_address,          // An IPv6 header with an IPv4-mapped address (RFC 4942, section 2.2).
  ip_checksum,         // The IPv4 header's checksum does not match.
  ip_protocol,         // What follows the IP header is not UDP.
  ip_length,           // The lengths in the IP and UDP headers disagree.
  udp_port,            // Port 0 is reserved (RFC 768).
  mad_length,          // A management datagram has not 256 bytes.
  mad_version,         // The base version of a management datagram is not 1.
  mad_class,           // An unexpected management class or class version.
  mad_attribute,       // A method or attribute that the management class does not define.
  rdma_ip_version,     // The RDMA IP CM header has another version, or names neither IPv4 nor IPv6.
  mpa_key,             // Neither an MPA Request nor an MPA Reply frame.
  mpa_revision,        // The MPA revision is neither 1 nor 2.
  mpa_length,          // An impossible length in an MPA frame or FPDU.
  mpa_crc,             // The CRC32c of an FPDU does not match.
  mpa_marker,          // A marker does not point to the start of its FPDU.
  ddp_version,         // The version of a DDP segment is not 1.
  rdmap_version,       // The version of RDMAP is not 1.
  rdmap_queue,         // The RDMAP opcode does not match the kind of segment, or its queue.
};

/// Returns the text for a log line.
constexpr const char* describe(WireError error) {
  switch (error) {
    case WireError::too_short:
      return "ends within a header";
    case WireError::unknown_opcode:
      return "unknown opcode";
    case WireError::transport_version:
      return "transport header version is not 0";
    case WireError::unaligned_length:
      return "payload and padding are not a multiple of 4 bytes";
    case WireError::bad_padding:
      return "pad count exceeds the payload";
    case WireError::unexpected_payload:
      return "payload on an opcode that has none";
    case WireError::reserved_syndrome:
      return "reserved AETH syndrome";
    case WireError::link_version:
      return "link version is not 0";
    case WireError::ip_version:
      return "IP version is neither 4 nor 6";
    case WireError::ip_header:
      return "IPv4 options or fragment";
    case WireError::ip_address:
      return "IPv4-mapped address in an IPv6 header";
    case WireError::ip_checksum:
      return "wrong IPv4 header checksum";
    case WireError::ip_protocol:
      return "not UDP";
    case WireError::ip_length:
      return "IP and UDP lengths disagree";
    case WireError::udp_port:
      return "to UDP port 0";
    case WireError::mad_length:
      return "management datagram has not 256 bytes";
    case WireError::mad_version:
      return "base version of the management datagram is not 1";
    case WireError::mad_class:
      return "other management class or class version";
    case WireError::mad_attribute:
      return "method or attribute unknown to the management class";
    case WireError::rdma_ip_version:
      return "unknown version in the RDMA IP CM header";
    case WireError::mpa_key:
      return "neither an MPA request nor a reply";
    case WireError::mpa_revision:
      return "MPA revision is neither 1 nor 2";
    case WireError::mpa_length:
      return "impossible length in an MPA frame";
    case WireError::mpa_crc:
      return "wrong CRC32c";
    case WireError::mpa_marker:
      return "marker and FPDU disagree";
    case WireError::ddp_version:
      return "DDP version is not 1";
    case WireError::rdmap_version:
      return "RDMAP version is not 1";
    case WireError::rdmap_queue:
      return "RDMAP opcode and DDP segment disagree";
  }
  return "unknown wire error";
}

}  // namespace verbatim::wire
