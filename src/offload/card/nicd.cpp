// verbatim-nicd: the card's process. `verbatim nic up` starts it.
#include <charconv>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "offload/card/card.h"
#include "service/daemon.h"
#include "service/folder.h"

namespace verbatim {
namespace {

constexpr unsigned kRulesMax = 4 << 20;

Result<unsigned> number(const char* name, const std::string& text, unsigned least, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) {
    return value;
  }
  return refuse(EINVAL, fmt::format("{} {}: a number from {} to {}", name, text, least, most));
}

struct Said {
  std::string functions = "4";
  std::string rings;
  std::string prefix = "nic";
  std::string rules = "1048576";
  std::string socket;
  std::string device;
  std::string mode = "host";
};

/// "vf2,vf3"
Result<std::vector<std::uint16_t>> rings_of(const std::string& text, unsigned functions) {
  std::vector<std::uint16_t> rings;
  for (const auto part : std::views::split(text, ',')) {
    const std::string word(std::string_view{part});
    if (word.empty()) continue;
    const auto function = word.starts_with("vf") ? number("rings", word.substr(2), 0, functions - 1)
                                                 : refuse(EINVAL, "");
    if (!function) {
      return refuse(EINVAL, fmt::format("rings {}: functions from vf0 to vf{}, separated by commas",
                                        word, functions - 1));
    }
    rings.push_back(static_cast<std::uint16_t>(*function));
  }
  return rings;
}

Result<offload::CardOptions> options_of(const Said& said, const std::string& name) {
  offload::CardOptions options{.prefix = said.prefix, .socket = said.socket, .device = said.device};
  if (said.mode != "host" && said.mode != "dpu") {
    return refuse(EINVAL, fmt::format("mode {}: host or dpu", said.mode));
  }
  options.is_dpu = said.mode == "dpu";
  const auto functions =
      number("vfs", said.functions, 1, VNIC_PORTS_MAX - (options.is_dpu ? 2 : 1));
  if (!functions) return std::unexpected(functions.error());
  const auto rules = number("rules", said.rules, 1, kRulesMax);
  if (!rules) return std::unexpected(rules.error());
  options.functions = static_cast<std::uint16_t>(*functions);
  auto rings = rings_of(said.rings, *functions);
  if (!rings) return std::unexpected(rings.error());
  options.rings = std::move(*rings);
  options.rules = *rules;
  if (options.prefix.empty() || options.prefix.size() > 10) {
    return refuse(EINVAL, fmt::format("prefix '{}': 1 to 10 characters", options.prefix));
  }
  if (options.socket.empty()) {
    const auto folder = service::RuntimeFolder::open();
    if (!folder) return std::unexpected(folder.error());
    options.socket = fmt::format("{}/nic+{}.card", folder->path(), name);
  }
  auto keeper = service::Keeper::path_of({"nic", name});
  if (!keeper) return std::unexpected(keeper.error());
  options.keeper = std::move(*keeper);
  return options;
}

int run(int argc, char** argv) {
  Said said;
  const service::Setting settings[] = {
      {"vfs", "N", "", "number of functions beside the uplink (default: 4)", &said.functions},
      {"rings", "VF,...", "", "functions that are rings of memory, for nodes, not interfaces",
       &said.rings},
      {"prefix", "WORD", "", "the interfaces are WORDup, WORDvf0... (default: nic)", &said.prefix},
      {"mode", "MODE", "", "host; or dpu, which also has the host's own function (default: host)",
       &said.mode},
      {"rules", "N", "", "how many rules the switch has room for (default: 1048576)", &said.rules},
      {"socket", "PATH", "", "where a driver connects (default: in the runtime folder)",
       &said.socket},
      {"device", "PATH", "",
       "of the kernel's driver (module verbatim_nic), instead of one that connects", &said.device}};
  std::unique_ptr<offload::Card> card;
  return service::run_daemon(
      {.program = "verbatim-nicd",
       .kind = "nic",
       .summary = "a SmartNIC in user space: an embedded switch between TAP interfaces",
       .settings = settings},
      argc, argv, [&](service::Daemon& daemon) -> Result<void> {
        const auto options = options_of(said, daemon.name());
        if (!options) return std::unexpected(options.error());
        auto made = offload::Card::create(daemon.loop(), *options);
        if (!made) return std::unexpected(made.error());
        card = std::move(*made);
        daemon.control().on("flows", [&](const nlohmann::json&) { return card->flows(); });
        daemon.control().on("stats", [&](const nlohmann::json&) { return card->stats(); });
        daemon.on_status([&] { return card->show(); });
        return {};
      });
}

}  // namespace
}  // namespace verbatim

int main(int argc, char** argv) { return verbatim::run(argc, argv); }
