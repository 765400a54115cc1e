#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/net/link_rate.h"
#include "cli/fabric/cable_request.h"
#include "cli/fabric/commands.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;
using Change = protocol::LinkRequest::Change;

constexpr const char* kExamples =
    "PORT is a node's name or GUID, a slash and the port's number. 'down' takes the\n"
    "cable out; switches send traps, and a subnet manager routes around it. 'up' puts\n"
    "it in again, as good as new. 'degrade' makes it carry less: the link trains\n"
    "again, with fewer lanes (1x, 2x, 4x, 8x), a slower speed (SDR, DDR, QDR, FDR10,\n"
    "FDR, EDR, HDR, NDR), or both (1xSDR). 'errors' makes bits wrong at this rate: the\n"
    "port at the end of the cable counts damaged packets and drops them.\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric link L1/3 down\n"
    "  verbatim fabric link L1/3 degrade 1x\n"
    "  verbatim fabric link L1/3 errors 1e-9\n"
    "  verbatim fabric link L1/3 up";

struct Form {
  std::string name;
  std::string port;
  std::string change;
  std::string rate;
};

/// "1x", "SDR" or "1xSDR".
Result<void> parse_rate(std::string_view text, protocol::LinkRequest& request) {
  std::string_view rest = text;
  for (const LinkWidth width : kLinkWidths) {
    const std::string lanes = fmt::format("{}x", lanes_of(width));
    if (!text.starts_with(lanes)) continue;
    request.width = static_cast<std::uint8_t>(width);
    rest.remove_prefix(lanes.size());
  }
  for (std::size_t i = 0; i < kLinkSpeeds.size(); ++i) {
    if (kLinkSpeeds[i].name != rest) continue;
    request.speed = static_cast<std::uint8_t>(i);
    rest = {};
  }
  if (rest.empty() && !text.empty()) return {};
  return refuse(EINVAL, fmt::format("'{}' is neither a width such as 1x, nor a speed such as SDR, "
                                    "nor both",
                                    text));
}

/// "1e-9", "0".
Result<void> parse_bit_error_rate(const std::string& text, protocol::LinkRequest& request) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, request.bit_error_rate);
  if (error == std::errc{} && rest == end) return {};
  return refuse(EINVAL, fmt::format("'{}' is no bit error rate such as 1e-9", text));
}

Result<protocol::LinkRequest> request_of(const Form& form) {
  protocol::LinkRequest request;
  if (auto port = put_port(form.port, request); !port) return std::unexpected(port.error());
  const bool has_errors = form.change == "errors";
  if (form.change != "degrade" && !has_errors) {
    if (!form.rate.empty()) return refuse(EINVAL, "only 'degrade' and 'errors' take a rate");
    request.change = form.change == "up" ? Change::up : Change::down;
    return request;
  }
  if (form.rate.empty()) {
    return refuse(EINVAL, fmt::format("'{0}' at which rate? Such as '{0} {1}'", form.change,
                                      has_errors ? "1e-9" : "1x"));
  }
  request.change = has_errors ? Change::errors : Change::degrade;
  const auto parsed =
      has_errors ? parse_bit_error_rate(form.rate, request) : parse_rate(form.rate, request);
  if (!parsed) return std::unexpected(parsed.error());
  return request;
}

}  // namespace

void add_fabric_link(CLI::App& fabric, int& exit_status) {
  auto* link = fabric.add_subcommand("link", "Take a cable out, put it in, or make it worse");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  link->add_option("port", form->port, "One end of the cable, such as L1/3")
      ->type_name("PORT")
      ->required();
  link->add_option("change", form->change, "down, up, degrade or errors")
      ->type_name("CHANGE")
      ->required()
      ->check(CLI::IsMember({"down", "up", "degrade", "errors"}));
  link->add_option("rate", form->rate, "Of 'degrade': 1x, SDR, 1xSDR; of 'errors': 1e-9")
      ->type_name("RATE");
  add_name_option(*link, form->name);
  link->footer(kExamples);
  link->callback(
      [form, &exit_status] { exit_status = change_cable("link", request_of(*form), form->name); });
}

}  // namespace verbatim::cli
