#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/services/service_command.h"
#include "cli/target/target_name.h"
#include "cli/target/target_text.h"

namespace verbatim::cli {
namespace {

constexpr ServiceKind kKind{.kind = "target", .what = "target"};

constexpr const char* kExamples =
    "A target serves a disk to hosts of NVMe over Fabrics: Linux's 'nvme connect', or\n"
    "any other; to iSCSI initiators, over iSER and TCP; and to SRP's, by dest=. Each\n"
    "node has one, named after it. It admits nobody until --allow-host names a host, or\n"
    "--allow-any-host says so; the other protocols have such options, too.\n"
    "\n"
    "Examples:\n"
    "  verbatim target up --node a --nvme nqn.2026-01.com.example:d --allow-any-host\n"
    "  verbatim target show --node a\n"
    "  verbatim target down --node a";

struct UpForm {
  ServiceChoice place;
  std::string nvme, ram, file, null, block, listen, spin, kernel;
  bool is_direct = false;
  std::vector<std::string> hosts;
  bool any_host = false;
  std::string iscsi, iscsi_listen, iscsi_auth;
  std::vector<std::string> initiators;
  bool any_initiator = false;
  std::string srp_listen;
  std::vector<std::string> srp, srp_initiators;
  bool any_srp_initiator = false;
};

int fail(const std::string& text, int status = kExitFailure) {
  return fail_service(kKind, "up", text, status);
}

/// The daemon has another working directory.
std::string absolute(const std::string& path) {
  std::error_code ignored;
  const auto whole = std::filesystem::absolute(path, ignored);
  return ignored ? path : whole.string();
}

std::vector<std::string> words_of(const UpForm& form) {
  std::vector<std::string> words;
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--nvme", form.nvme);
  add("--ram", form.ram);
  if (!form.file.empty()) add("--file", absolute(form.file));
  if (form.is_direct) add("--direct", "yes");
  add("--null", form.null);
  add("--block", form.block);
  add("--listen", form.listen);
  add("--spin", form.spin);
  add("--kernel", form.kernel);
  add("--allow-host", fmt::format("{}", fmt::join(form.hosts, ",")));
  if (form.any_host) add("--allow-any-host", "yes");
  add("--iscsi", form.iscsi);
  add("--iscsi-listen", form.iscsi_listen);
  add("--iscsi-auth", form.iscsi_auth);
  add("--allow-initiator", fmt::format("{}", fmt::join(form.initiators, ",")));
  if (form.any_initiator) add("--allow-any-initiator", "yes");
  add("--srp", fmt::format("{}", fmt::join(form.srp, ",")));
  add("--srp-listen", form.srp_listen);
  add("--allow-srp-initiator", fmt::format("{}", fmt::join(form.srp_initiators, ",")));
  if (form.any_srp_initiator) add("--allow-any-srp-initiator", "yes");
  return words;
}

int up(const UpForm& form) {
  if (const auto entered = enter(form.place); !entered)
    return fail(entered.error().text, entered.error().exit_status);
  const auto started = start_target(service_name(kKind.kind, form.place), words_of(form));
  if (!started)
    return fail(started.error().text, started.error().code == EINVAL ? kExitUsage : kExitFailure);
  if (!form.iscsi.empty() && !form.any_initiator && form.initiators.empty()) {
    fmt::print(stderr,
               "verbatim target up: no initiator may log in yet: name them with "
               "--allow-initiator, or say --allow-any-initiator\n");
  }
  if (!form.srp.empty() && !form.any_srp_initiator && form.srp_initiators.empty()) {
    fmt::print(stderr,
               "verbatim target up: no SRP initiator may log in yet: name their ports with "
               "--allow-srp-initiator, or say --allow-any-srp-initiator\n");
  }
  if (!form.nvme.empty() && !form.any_host && form.hosts.empty()) {
    fmt::print(stderr,
               "verbatim target up: no host may connect yet: name them with --allow-host, "
               "or say --allow-any-host\n");
  }
  return 0;
}

void add_iscsi(CLI::App& command, UpForm& form) {
  command.add_option("--iscsi", form.iscsi, "The iSCSI target that has the disk: iSER and TCP")
      ->type_name("IQN");
  command
      .add_option("--iscsi-listen", form.iscsi_listen,
                  "Where initiators connect; default: as --listen, port 3260")
      ->type_name("IP[:PORT]");
  command.add_option("--allow-initiator", form.initiators, "An initiator that may log in, by name")
      ->type_name("IQN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--allow-any-initiator", form.any_initiator, "All initiators may log in");
  command
      .add_option("--iscsi-auth", form.iscsi_auth,
                  "CHAP: userid, password, userid_mutual and password_mutual, a line each")
      ->type_name("FILE");
}

void add_srp(CLI::App& command, UpForm& form) {
  command
      .add_option("--srp", form.srp,
                  "An SRP port that has the disk: id_ext and ioc_guid, 32 hexadecimal digits, or "
                  "nothing: the node's GUID, twice")
      ->type_name("[PORT]")
      ->expected(0, 1)
      ->default_str("node")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--srp-listen", form.srp_listen,
                  "Where SRP's initiators connect; default: as --listen, port 4242")
      ->type_name("IP[:PORT]");
  command
      .add_option("--allow-srp-initiator", form.srp_initiators,
                  "An initiator's port that may log in")
      ->type_name("PORT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--allow-any-srp-initiator", form.any_srp_initiator, "All of them may log in");
}

void add_up(CLI::App& target, int& exit_status) {
  auto* command = target.add_subcommand("up", "Start a node's target");
  auto form = std::make_shared<UpForm>();
  add_service_options(*command, form->place);
  command->add_option("--nvme", form->nvme, "The NQN of the subsystem that has the disk")
      ->type_name("NQN");
  command->add_option("--ram", form->ram, "The disk: memory of this size; default: 64M")
      ->type_name("SIZE");
  command->add_option("--file", form->file, "The disk: a file, or a block device")
      ->type_name("PATH");
  command->add_flag("--direct", form->is_direct, "Past the page cache; block devices: always");
  command->add_option("--null", form->null, "The disk: nothing, of this size, to measure all else")
      ->type_name("SIZE");
  command->add_option("--block", form->block, "Bytes of a block: 512 (default) or 4096")
      ->type_name("BYTES");
  command->add_option("--listen", form->listen, "Where hosts connect; default: the node, port 4420")
      ->type_name("IP[:PORT]");
  command->add_option("--spin", form->spin, "How long it polls before it sleeps; default: 50")
      ->type_name("US|always");
  command
      ->add_option("--kernel", form->kernel,
                   "Whose tree programs see; default: 6.1. 6.13 has resv_enable")
      ->type_name("VERSION");
  command->add_option("--allow-host", form->hosts, "A host that may connect, by its NQN")
      ->type_name("NQN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--allow-any-host", form->any_host, "All hosts may connect");
  add_iscsi(*command, *form);
  add_srp(*command, *form);
  command->footer(kExamples);
  command->callback([form, &exit_status] { exit_status = up(*form); });
}

}  // namespace

void add_target(CLI::App& app, int& exit_status) {
  auto* target = app.add_subcommand("target", "Serve a disk by NVMe over Fabrics, iSCSI and SRP");
  target->require_subcommand(1);
  target->footer(kExamples);
  add_up(*target, exit_status);
  add_service_down(*target, kKind, "End a node's target", exit_status);
  add_service_show(*target, kKind, "Show a target's disks, hosts and refusals", target_text,
                   exit_status);
}

}  // namespace verbatim::cli
