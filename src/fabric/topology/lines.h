#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/topology/topology.h"

/// One line of a topology file, as a value. What it means among the others is the reader's to say.
namespace verbatim::fabric {

/// `Switch 36 "S-0002c903007b78b0" # "name" enhanced port 0 lid 1 lmc 0`
struct NodeLine {
  NodeKind kind{};
  std::uint8_t ports = 0;
  std::string_view id;
  std::string_view description;  // Empty: none.
  bool enhanced_port_0 = false;
  std::uint16_t lid = 0;
  std::uint8_t lmc = 0;
};

/// `[1](10000a) "S-0000000000200002"[1] # lid 7 lmc 0 "S3" lid 4 4xSDR`
struct PortLine {
  std::uint8_t port = 0;
  std::string_view peer_id;
  std::uint8_t peer_port = 1;
  std::optional<std::uint64_t> guid;  // An adapter's or router's own.
  std::uint16_t lid = 0;              // The same.
  std::uint8_t lmc = 0;
  std::optional<Rate> rate;
  std::string_view unknown_rate;  // A word where the rate should be.
  std::uint32_t length_m = 0;
};

/// A text says what is wrong. `line` must outlive the value.
std::expected<NodeLine, std::string> parse_node_line(NodeKind kind, std::string_view line);
std::expected<PortLine, std::string> parse_port_line(std::string_view line);

}  // namespace verbatim::fabric
