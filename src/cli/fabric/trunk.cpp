#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/net/address.h"
#include "cli/fabric/cable_request.h"
#include "cli/fabric/commands.h"
#include "fabric/protocol/trunk_message.h"
#include "fabric/topology/topology.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

constexpr const char* kExamples =
    "A trunk is a cable that ends in a fabric elsewhere: of another machine, user or\n"
    "network namespace. Both fabrics are one InfiniBand subnet then, which one subnet\n"
    "manager manages. PORT has no cable; 'verbatim fabric link PORT down' takes the\n"
    "trunk out. One side listens, the other knows its address, or each knows the\n"
    "other's. Nodes of both fabrics need different GUIDs: see 'generate --guid-base'.\n"
    "Packets cross in UDP datagrams, which are neither encrypted nor signed.\n"
    "\n"
    "Examples:\n"
    "  one$ verbatim fabric trunk L1/36 --listen 10.0.0.1:4800\n"
    "  two$ verbatim fabric trunk L1/36 --to 10.0.0.1:4800";

struct Form {
  std::string name;
  std::string port;
  std::string listen;
  std::string peer;
  std::string rate = "4xHDR";
};

/// "10.0.0.1:4800", "[fe80::1%eth0]:4800".
Result<protocol::UdpAddress> parse_address(std::string_view text) {
  const auto wrong = [text] {
    return refuse(EINVAL,
                  fmt::format("'{}' is no address such as 10.0.0.1:4800 or [::1]:4800", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view ip = text.substr(0, colon);
  const bool has_brackets = ip.starts_with('[') && ip.ends_with(']');
  if (has_brackets) ip = ip.substr(1, ip.size() - 2);
  if (has_brackets != (ip.find(':') != std::string_view::npos)) return wrong();
  const char* const end = text.data() + text.size();
  protocol::UdpAddress told;
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, told.port);
  const auto address = SocketAddress::parse(ip);
  if (error != std::errc{} || rest != end || told.port == 0 || !address) return wrong();
  told.ip = address->ipv6_bytes();
  told.scope_id = address->scope_id();
  return told;
}

Result<protocol::TrunkRequest> request_of(const Form& form) {
  protocol::TrunkRequest request;
  if (auto port = put_port(form.port, request); !port) return std::unexpected(port.error());
  const auto rate = fabric::parse_rate(form.rate);
  if (!rate) return refuse(EINVAL, fmt::format("'{}' is no rate such as 4xHDR", form.rate));
  request.width = static_cast<std::uint8_t>(rate->width);
  request.speed = static_cast<std::uint8_t>(rate->speed);
  if (form.listen.empty() && form.peer.empty()) {
    return refuse(EINVAL, "where is the other side? See --listen and --to");
  }
  for (const auto& [text, told] :
       {std::pair(&form.listen, &request.listen), std::pair(&form.peer, &request.peer)}) {
    if (text->empty()) continue;
    const auto address = parse_address(*text);
    if (!address) return std::unexpected(address.error());
    *told = *address;
  }
  return request;
}

}  // namespace

void add_fabric_trunk(CLI::App& fabric, int& exit_status) {
  auto* trunk = fabric.add_subcommand("trunk", "Plug in a cable to a fabric elsewhere");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  trunk->add_option("port", form->port, "A port without a cable, such as L1/36")
      ->type_name("PORT")
      ->required();
  trunk->add_option("--listen", form->listen, "Where the other side finds this one")
      ->type_name("ADDRESS:PORT");
  trunk->add_option("--to", form->peer, "Where the other side is: it alone is heard")
      ->type_name("ADDRESS:PORT");
  trunk
      ->add_option("--rate", form->rate,
                   "Width and speed; the lesser of both sides counts; default: 4xHDR")
      ->type_name("RATE");
  add_name_option(*trunk, form->name);
  trunk->footer(kExamples);
  trunk->callback(
      [form, &exit_status] { exit_status = change_cable("trunk", request_of(*form), form->name); });
}

}  // namespace verbatim::cli
