#include "fabric/topology/lines.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "fabric/topology/scanner.h"

namespace verbatim::fabric {
namespace {

std::unexpected<std::string> wrong(std::string text) { return std::unexpected(std::move(text)); }

/// "lid 5 lmc 0" at the scanner.
void take_lid(Scanner& scanner, std::uint16_t& lid, std::uint8_t& lmc) {
  scanner.skip_blanks();
  if (scanner.take("lid ")) lid = static_cast<std::uint16_t>(scanner.number().value_or(0));
  scanner.skip_blanks();
  if (scanner.take("lmc ")) lmc = static_cast<std::uint8_t>(scanner.number().value_or(0) & 7);
}

/// "[7]", then perhaps "[ext 3]".
std::expected<std::uint8_t, std::string> take_port(Scanner& scanner) {
  if (!scanner.take("[")) return wrong("a port in brackets is missing");
  const auto number = scanner.number();
  if (!number || !scanner.take("]")) return wrong("a port in brackets is no number");
  if (*number == 0 || *number > kPortsMax) {
    return wrong(fmt::format("port {}: ports are 1 to {}", *number, kPortsMax));
  }
  if (scanner.take("[ext ")) {
    scanner.number();
    scanner.take("]");
  }
  return static_cast<std::uint8_t>(*number);
}

/// "(10000a)", a GUID in hexadecimal digits.
std::optional<std::uint64_t> take_guid(Scanner& scanner) {
  if (!scanner.take("(")) return std::nullopt;
  scanner.take("0x");
  const auto guid = scanner.number(16);
  scanner.take(")");
  return guid;
}

/// The fastest speed, or widest width, of ibsim's masks.
struct Masks {
  std::uint64_t width = 0;
  std::uint64_t speed = 0;
  std::uint64_t extended_speed = 0;
};

std::expected<std::optional<Rate>, std::string> rate_of(const Masks& masks) {
  if (masks.width == 0 && masks.speed == 0 && masks.extended_speed == 0) return std::nullopt;
  if (masks.width > 31 || masks.speed > 7 || masks.extended_speed > 15) {
    return wrong(
        "w= is a mask of widths up to 31, s= of speeds up to 7, e= of extended speeds up to 15");
  }
  Rate rate{LinkWidth::x4, LinkSpeed::sdr};
  unsigned lanes = 0;
  for (const LinkWidth width : kLinkWidths) {
    if ((masks.width & raw(width)) == 0 || lanes_of(width) <= lanes) continue;
    rate.width = width;
    lanes = lanes_of(width);
  }
  constexpr std::array kSpeeds{LinkSpeed::sdr, LinkSpeed::ddr, LinkSpeed::qdr};
  constexpr std::array kExtended{LinkSpeed::fdr, LinkSpeed::edr, LinkSpeed::hdr, LinkSpeed::ndr};
  if (masks.speed != 0) rate.speed = kSpeeds[std::bit_width(masks.speed) - 1];
  if (masks.extended_speed != 0) rate.speed = kExtended[std::bit_width(masks.extended_speed) - 1];
  return rate;
}

/// ibsim's options behind the peer: "w=2 s=4 e=1".
std::expected<std::optional<Rate>, std::string> take_masks(Scanner& scanner) {
  Masks masks;
  while (true) {
    scanner.skip_blanks();
    std::uint64_t* mask = scanner.take("w=")   ? &masks.width
                          : scanner.take("s=") ? &masks.speed
                          : scanner.take("e=") ? &masks.extended_speed
                                               : nullptr;
    if (mask == nullptr) return rate_of(masks);
    const auto value = scanner.any_number();
    if (!value) return wrong("an option of a port has no number");
    *mask = *value;
  }
}

/// `lid 7 lmc 0 "S3" lid 4 4xSDR length 5 m`, of which the first part is an adapter's own.
void take_comment(Scanner comment, PortLine& port) {
  take_lid(comment, port.lid, port.lmc);
  comment.skip_blanks();
  comment.quoted();
  std::uint16_t peer_lid = 0;
  std::uint8_t peer_lmc = 0;
  take_lid(comment, peer_lid, peer_lmc);
  comment.skip_blanks();
  const std::string_view word = comment.word();
  if (const auto rate = parse_rate(word)) {
    port.rate = rate;
  } else {
    port.unknown_rate = word;
  }
  comment.skip_blanks();
  if (!comment.take("length ")) return;
  const auto length = comment.number();
  if (length && *length <= UINT32_MAX) port.length_m = static_cast<std::uint32_t>(*length);
}

}  // namespace

std::expected<NodeLine, std::string> parse_node_line(NodeKind kind, std::string_view line) {
  Scanner scanner(line);
  NodeLine node{.kind = kind};
  scanner.word();
  scanner.skip_blanks();
  const auto ports = scanner.number();
  if (!ports || *ports == 0 || *ports > kPortsMax) {
    return wrong(fmt::format("a node has 1 to {} ports, which stand before its id", kPortsMax));
  }
  node.ports = static_cast<std::uint8_t>(*ports);
  scanner.skip_blanks();
  const auto id = scanner.quoted();
  if (!id || id->empty()) return wrong("a node's id in quotes is missing");
  node.id = *id;
  scanner.skip_blanks();
  if (scanner.rest().empty()) return node;
  if (!scanner.take("#")) return wrong("behind a node's id there may be a comment only");
  scanner.skip_blanks();
  if (const auto description = scanner.quoted()) node.description = *description;
  scanner.skip_blanks();
  const bool is_enhanced = scanner.take("enhanced port 0");
  node.enhanced_port_0 = is_enhanced && kind == NodeKind::switch_node;  // No other has a port 0.
  if (!is_enhanced) scanner.take("base port 0");
  take_lid(scanner, node.lid, node.lmc);
  return node;
}

std::expected<PortLine, std::string> parse_port_line(std::string_view line) {
  Scanner scanner(line);
  PortLine port;
  const auto number = take_port(scanner);
  if (!number) return wrong(number.error());
  port.port = *number;
  port.guid = take_guid(scanner);
  scanner.skip_blanks();
  const auto id = scanner.quoted();
  if (!id || id->empty()) return wrong("the id of the node at the other end is missing");
  port.peer_id = *id;
  scanner.skip_blanks();
  if (scanner.rest().starts_with("[")) {
    const auto peer = take_port(scanner);
    if (!peer) return wrong(peer.error());
    port.peer_port = *peer;
  }
  take_guid(scanner);
  auto masks = take_masks(scanner);
  if (!masks) return wrong(std::move(masks.error()));
  port.rate = *masks;
  if (scanner.rest().empty()) return port;
  if (!scanner.take("#")) return wrong(fmt::format("unknown option of a port: {}", scanner.word()));
  take_comment(Scanner(scanner), port);
  return port;
}

}  // namespace verbatim::fabric
