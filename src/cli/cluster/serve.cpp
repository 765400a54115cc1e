#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/text/list.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/description.h"
#include "cli/cluster/namespaces.h"
#include "cli/cluster/programs.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "service/daemon.h"

namespace verbatim::cli::cluster {
namespace {

constexpr unsigned kNodesMax = 64;
constexpr unsigned kSlotsMax = 1024;

Result<unsigned> number_in(const std::string& text, unsigned max, const char* what) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > max) {
    return refuse(EINVAL, fmt::format("{}: 1 to {}, not '{}'", what, max, text));
  }
  return value;
}

struct Settings {
  std::string nodes = "4", slots = "1", protocol, fabric, hosts;
};

Result<Description> described(const std::string& name, const Settings& said) {
  Description description{.name = name, .protocol = said.protocol, .fabric = said.fabric};
  const auto hosts = split(said.hosts);
  const auto count = hosts.empty() ? number_in(said.nodes, kNodesMax, "--nodes")
                                   : number_in(std::to_string(hosts.size()), kNodesMax, "--hosts");
  const auto slots = number_in(said.slots, kSlotsMax, "--slots");
  if (!count) return std::unexpected(count.error());
  if (!slots) return std::unexpected(slots.error());
  description.slots = *slots;
  for (unsigned i = 1; i <= *count; ++i) {
    description.nodes.push_back({.name = fmt::format("n{}", i),
                                 .address = fmt::format("10.77.0.{}", i),
                                 .host = hosts.empty() ? "" : hosts[i - 1]});
  }
  return description;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) return refuse(EIO, "cannot write " + path);
  return {};
}

/// A program of one word in the place of ssh, as MPICH's starter wants it.
Result<void> write_starter(const std::string& path, const std::string& folder) {
  const std::string line =
      fmt::format("#!/bin/sh\nexec '{}/verbatim' cluster agent \"$@\"\n", folder);
  if (auto written = write_file(path, line); !written) return written;
  if (chmod(path.c_str(), 0700) != 0) return refuse_errno(path);
  return {};
}

/// A cluster that runs: its namespaces, and its files in the runtime folder.
class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> create(const std::string& name, const Settings& said) {
    auto description = described(name, said);
    if (!description) return std::unexpected(description.error());
    const auto hosts = file_of(name, "hosts"), json = file_of(name, "json");
    const auto program = own_folder();
    if (!program) return std::unexpected(program.error());
    if (!hosts) return std::unexpected(hosts.error());
    std::string lines = "127.0.0.1 localhost\n::1 localhost\n";
    for (const Node& node : description->nodes) {
      lines += fmt::format("{} {}\n", node.address, node.name);
    }
    if (auto written = write_file(*hosts, lines); !written) {
      return std::unexpected(written.error());
    }
    auto namespaces = Namespaces::create(*description, *hosts);
    if (!namespaces) {
      std::filesystem::remove(*hosts);
      return std::unexpected(namespaces.error());
    }
    const auto starter = file_of(name, "ssh");
    std::unique_ptr<Cluster> made(
        new Cluster(std::move(*description), std::move(*namespaces), {*hosts, *json, *starter}));
    if (auto written = write_starter(*starter, *program); !written) {
      return std::unexpected(written.error());
    }
    if (auto written = write_file(*json, nlohmann::json(made->description_).dump()); !written) {
      return std::unexpected(written.error());
    }
    return made;
  }
  ~Cluster() {
    for (const std::string& file : files_) std::filesystem::remove(file);
  }

  nlohmann::json status() const { return nlohmann::json(description_); }
  int keeper() const { return namespaces_.keeper(); }
  void end_programs(int signal) const { signal_programs(description_, signal); }
  bool has_programs() const { return count_programs(description_) != 0; }

 private:
  Cluster(Description description, Namespaces namespaces, std::vector<std::string> files)
      : description_(std::move(description)),
        namespaces_(std::move(namespaces)),
        files_(std::move(files)) {}

  Description description_;
  Namespaces namespaces_;
  std::vector<std::string> files_;
};

int serve(std::vector<std::string> words) {
  Settings said;
  const service::Setting settings[] = {
      {.name = "nodes", .value_name = "N", .help = "how many", .value = &said.nodes},
      {.name = "slots",
       .value_name = "N",
       .help = "of a node, in a hostfile",
       .value = &said.slots},
      {.name = "protocol", .value_name = "NAME", .help = "roce or iwarp", .value = &said.protocol},
      {.name = "fabric", .value_name = "NAME", .help = "of the hosts", .value = &said.fabric},
      {.name = "hosts", .value_name = "LIST", .help = "each a node", .value = &said.hosts}};
  words.insert(words.begin(), "verbatim cluster serve");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::unique_ptr<Cluster> cluster;
  const service::DaemonKind kind{.program = "verbatim cluster serve",
                                 .kind = "cluster",
                                 .summary = "keeps the nodes of a cluster",
                                 .settings = settings};
  return service::run_daemon(kind, static_cast<int>(words.size()), pointers.data(),
                             [&](service::Daemon& daemon) -> Result<void> {
                               auto made = Cluster::create(daemon.name(), said);
                               if (!made) return std::unexpected(made.error());
                               cluster = std::move(*made);
                               daemon.on_status([&] { return cluster->status(); });
                               daemon.on_stop([&] { cluster->end_programs(SIGTERM); },
                                              [&] { return !cluster->has_programs(); });
                               return daemon.loop().watch(
                                   cluster->keeper(), EPOLLIN,
                                   [&daemon](std::uint32_t, TimeNs) { daemon.loop().stop(); });
                             });
}

}  // namespace

void add_serve(CLI::App& cluster, int& exit_status) {
  auto* serve_command = cluster.add_subcommand("serve", "");
  serve_command->group("");  // Hidden.
  serve_command->prefix_command();
  serve_command->set_help_flag();
  serve_command->callback(
      [serve_command, &exit_status] { exit_status = serve(serve_command->remaining()); });
}

}  // namespace verbatim::cli::cluster
