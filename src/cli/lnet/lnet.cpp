#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/lnet/lnet_text.h"
#include "cli/services/service_command.h"

namespace verbatim::cli {
namespace {

constexpr ServiceKind kKind{.kind = "lnet", .what = "LNet node"};

constexpr const char* kExamples =
    "A node of Lustre's network: answers pings and self-tests ('lst') of Lustre's nodes and\n"
    "of others, and with two networks it forwards between them. Its port is 987.\n"
    "\n"
    "Examples:\n"
    "  verbatim lnet up --node a --address 127.0.0.1 --port 9987\n"
    "  verbatim lnet up --node b --address 127.0.0.2 --port 9987\n"
    "  verbatim lnet ping --node a 127.0.0.2@o2ib\n"
    "  verbatim lnet test --node a --write 127.0.0.2@o2ib\n"
    "  verbatim lnet down --node a";

struct UpForm {
  ServiceChoice choice;
  std::vector<std::string> nets, routes;
  std::string port;
};

struct PingForm {
  ServiceChoice choice;
  std::string nid;
};

struct TestForm {
  ServiceChoice choice;
  std::string nid, check = "full";
  bool reads = false, writes = false;
  std::uint32_t bytes = 1 << 20, requests = 1000, concurrency = 8;
};

int up(const UpForm& form) {
  std::vector<std::string> words;
  if (!form.nets.empty())
    words.insert(words.end(), {"--net", fmt::format("{}", fmt::join(form.nets, ","))});
  if (!form.routes.empty())
    words.insert(words.end(), {"--route", fmt::format("{}", fmt::join(form.routes, ","))});
  if (!form.port.empty()) words.insert(words.end(), {"--port", form.port});
  return start_service(kKind, form.choice, words);
}

/// Asks, and waits until the daemon has an answer. None: the reason is printed.
std::optional<nlohmann::json> run(const char* command, const ServiceChoice& choice,
                                  const nlohmann::json& question) {
  const auto begun = ask_service(kKind, command, choice, question);
  if (!begun) return std::nullopt;
  while (true) {
    auto result =
        ask_service(kKind, command, choice, {{"ask", "result"}, {"number", (*begun)["number"]}});
    if (!result || result->value("over", false)) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int ping(const PingForm& form) {
  const auto result = run("ping", form.choice, {{"ask", "ping"}, {"nid", form.nid}});
  if (!result) return kExitFailure;
  if (!result->contains("ends"))
    return fail_service(kKind, "ping", fmt::format("{}: {}", form.nid, result->value("words", "")));
  fmt::print("{}", ping_text(form.nid, *result));
  return 0;
}

int test(const TestForm& form) {
  const char* const what = form.writes ? "write" : form.reads ? "read" : "ping";
  const auto result = run("test", form.choice,
                          {{"ask", "test"},
                           {"nid", form.nid},
                           {"what", what},
                           {"check", form.check},
                           {"bytes", form.bytes},
                           {"requests", form.requests},
                           {"concurrency", form.concurrency}});
  if (!result) return kExitFailure;
  fmt::print("{}", test_text(*result, form.reads || form.writes ? form.bytes : 0));
  const std::string words = result->value("words", "");
  if (!words.empty()) return fail_service(kKind, "test", fmt::format("{}: {}", form.nid, words));
  return result->value("errors", 0) == 0 ? 0 : kExitFailure;
}

void add_up(CLI::App& lnet, int& exit_status) {
  auto* command = lnet.add_subcommand("up", "Start a node");
  auto form = std::make_shared<UpForm>();
  add_service_options(*command, form->choice);
  const auto list = [&](const char* name, std::vector<std::string>& into, const char* help,
                        const char* type) {
    command->add_option(name, into, help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  list("--net", form->nets, "A network it is at; default: o2ib, by its first address", "NET[=IP]");
  list("--route", form->routes, "Which node leads to another network", "NET=NID");
  command->add_option("--port", form->port, "Of all nodes; default: 987, which is root's")
      ->type_name("PORT");
  command->footer(kExamples);
  command->callback([form, &exit_status] { exit_status = up(*form); });
}

void add_ping(CLI::App& lnet, int& exit_status) {
  auto* command = lnet.add_subcommand("ping", "Ask another node who it is");
  auto form = std::make_shared<PingForm>();
  add_service_options(*command, form->choice);
  command->add_option("nid", form->nid, "The node: ADDRESS@o2ib")->type_name("NID")->required();
  command->callback([form, &exit_status] { exit_status = ping(*form); });
}

void add_test(CLI::App& lnet, int& exit_status) {
  auto* command = lnet.add_subcommand("test", "Test the way to another node, as 'lst' does");
  auto form = std::make_shared<TestForm>();
  add_service_options(*command, form->choice);
  command->add_option("nid", form->nid, "The node: ADDRESS@o2ib")->type_name("NID")->required();
  auto* const reads = command->add_flag("--read", form->reads, "It sends bulks; default: pings");
  command->add_flag("--write", form->writes, "It fetches bulks")->excludes(reads);
  command->add_option("--bytes", form->bytes, "Of a bulk: 4096 to 1048576 (default)")
      ->type_name("BYTES");
  command->add_option("--requests", form->requests, "How many; default: 1000")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--concurrency", form->concurrency, "At once: 1 to 16; default: 8")
      ->type_name("N");
  command
      ->add_option("--check", form->check, "Bytes of bulks that are compared: full, simple, none")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"full", "simple", "none"}));
  command->callback([form, &exit_status] { exit_status = test(*form); });
}

}  // namespace

void add_lnet(CLI::App& app, int& exit_status) {
  auto* lnet = app.add_subcommand("lnet", "Lustre's network: answer, ping, test, forward");
  lnet->require_subcommand(1);
  lnet->footer(kExamples);
  add_up(*lnet, exit_status);
  add_service_down(*lnet, kKind, "End a node", exit_status);
  add_service_show(*lnet, kKind, "Show a node's peers and counters", lnet_text, exit_status);
  add_ping(*lnet, exit_status);
  add_test(*lnet, exit_status);
}

}  // namespace verbatim::cli
