#include "cli/lnet/lnet_text.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

double seconds_of(const nlohmann::json& result) {
  return static_cast<double>(result.value("nanoseconds", std::uint64_t{0})) / 1e9;
}

}  // namespace

std::string lnet_text(const nlohmann::json& status) {
  std::string text;
  for (const auto& nid : status.at("nids")) text += fmt::format("{}\n", nid.get<std::string>());
  text += fmt::format("  messages: {} received, {} forwarded, {} dropped{}\n",
                      status.value("received", 0), status.value("forwarded", 0),
                      status.value("dropped", 0),
                      status.value("forwards", false) ? "" : " (at one network: forwards none)");
  const auto& served = status.at("self_test");
  text += fmt::format("  self-tests served: {} pings, {} reads, {} writes, {} errors{}\n",
                      served.value("pings", 0), served.value("reads", 0), served.value("writes", 0),
                      served.value("errors", 0),
                      served.value("session", false) ? "; a session is open" : "");
  for (const auto& peer : status.at("peers")) {
    const std::string words = peer.value("words", "");
    text += fmt::format("  peer {}: {}, {} waiting{}\n", peer.value("nid", ""),
                        peer.value("connected", false) ? "connected" : "not connected",
                        peer.value("waiting", 0), words.empty() ? "" : " (" + words + ")");
  }
  for (const auto& one : status.at("incidents"))
    text += fmt::format("  {}: {}\n", one.value("peer", ""), one.value("words", ""));
  return text;
}

std::string ping_text(const std::string& nid, const nlohmann::json& result) {
  std::string text = fmt::format("{}: {:.3f} ms{}\n", nid, 1e3 * seconds_of(result),
                                 result.value("routes", false) ? ", forwards" : "");
  for (const auto& end : result.at("ends"))
    text += fmt::format("  {} {}\n", end.value("nid", ""), end.value("up", false) ? "up" : "down");
  return text;
}

std::string test_text(const nlohmann::json& result, std::uint64_t bytes) {
  const std::uint64_t done = result.value("done", std::uint64_t{0});
  const double seconds = seconds_of(result);
  std::string text = fmt::format("{} requests, {} errors, {:.3f} s", done,
                                 result.value("errors", std::uint64_t{0}), seconds);
  if (seconds > 0) {
    text += fmt::format(", {:.0f} requests a second", static_cast<double>(done) / seconds);
    if (bytes > 0)
      text += fmt::format(", {:.3f} GB/s", static_cast<double>(done * bytes) / seconds / 1e9);
  }
  return text + "\n";
}

}  // namespace verbatim::cli
