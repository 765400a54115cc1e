#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/net/link_rate.h"
#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;
using Change = protocol::LinkRequest::Change;

constexpr const char* kExamples =
    "PORT is a node's name or GUID, a slash and the port's number. 'down' takes the\n"
    "cable out; switches send traps, and a subnet manager routes around it. 'up' puts\n"
    "it in again, as good as new. 'degrade' makes it carry less: the link trains\n"
    "again, with fewer lanes (1x, 2x, 4x, 8x), a slower speed (SDR, DDR, QDR, FDR10,\n"
    "FDR, EDR, HDR, NDR), or both (1xSDR).\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric link L1/3 down\n"
    "  verbatim fabric link L1/3 degrade 1x\n"
    "  verbatim fabric link L1/3 up";

struct Form {
  std::string name;
  std::string port;
  std::string change;
  std::string rate;
};

/// "S1/3"; a node's name may have slashes.
Result<void> parse_port(const std::string& text, protocol::LinkRequest& request) {
  const std::size_t slash = text.rfind('/');
  const char* const end = text.data() + text.size();
  if (slash != std::string::npos && slash != 0) {
    const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, request.port);
    if (error == std::errc{} && rest == end) {
      protocol::put_text(request.node, text.substr(0, slash));
      return {};
    }
  }
  return refuse(EINVAL, fmt::format("'{}' is no port such as L1/3", text));
}

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

Result<protocol::LinkRequest> request_of(const Form& form) {
  protocol::LinkRequest request;
  if (auto parsed = parse_port(form.port, request); !parsed) {
    return std::unexpected(parsed.error());
  }
  if (form.change != "degrade") {
    if (!form.rate.empty()) return refuse(EINVAL, "only 'degrade' takes a rate");
    request.change = form.change == "up" ? Change::up : Change::down;
    return request;
  }
  if (form.rate.empty()) return refuse(EINVAL, "degrade to which rate? Such as 'degrade 1x'");
  request.change = Change::degrade;
  if (auto parsed = parse_rate(form.rate, request); !parsed) {
    return std::unexpected(parsed.error());
  }
  return request;
}

int change_link(const Form& form) {
  const auto fail = [](const Error& error, int status) {
    fmt::print(stderr, "verbatim fabric link: {}\n", error.text);
    return status;
  };
  const auto request = request_of(form);
  if (!request) return fail(request.error(), kExitUsage);
  const auto folder = protocol::FabricFolder::of(form.name);
  if (!folder) return fail(folder.error(), kExitFailure);
  const auto connection = folder->connect();
  if (!connection) return fail(connection.error(), kExitFailure);
  const auto done = protocol::ask<protocol::Done>(connection->get(), *request);
  return done ? 0 : fail(done.error(), kExitFailure);
}

}  // namespace

void add_fabric_link(CLI::App& fabric, int& exit_status) {
  auto* link = fabric.add_subcommand("link", "Take a cable out, put it in, or degrade it");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  link->add_option("port", form->port, "One end of the cable, such as L1/3")
      ->type_name("PORT")
      ->required();
  link->add_option("change", form->change, "down, up or degrade")
      ->type_name("CHANGE")
      ->required()
      ->check(CLI::IsMember({"down", "up", "degrade"}));
  link->add_option("rate", form->rate, "Of 'degrade': 1x, SDR, 1xSDR")->type_name("RATE");
  add_name_option(*link, form->name);
  link->footer(kExamples);
  link->callback([form, &exit_status] { exit_status = change_link(*form); });
}

}  // namespace verbatim::cli
