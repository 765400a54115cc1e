// `verbatim nic show`, `flows` and `stats`: what a card tells of itself.
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/command.h"
#include "cli/nic/commands.h"
#include "cli/text/table.h"
#include "service/control.h"

namespace verbatim::cli::nic {
namespace {

using Json = nlohmann::json;
constexpr unsigned kWatchSeconds = 1;

std::uint64_t number(const Json& json, const char* key) {
  return json.at(key).get<std::uint64_t>();
}
std::string word(const Json& json, const char* key) { return json.at(key).get<std::string>(); }

/// Of a function that is rings: who has it.
std::string interface_of(const Json& port) {
  if (port.contains("interface")) return word(port, "interface");
  const Json& rings = port.at("rings");
  return fmt::format("rings: {} clients, {}", number(rings, "clients"),
                     rings.at("link").get<bool>() ? "up" : "down");
}

std::string show_text(const Json& card) {
  std::string text =
      fmt::format("card '{}': {} of {} rules, {} masks; drivers connect at {}\n",
                  word(card, "name"), number(card, "rules"), number(card, "rules_max"),
                  number(card, "masks"), word(card, "socket"));
  if (const auto driver = card.find("driver"); driver != card.end()) {
    const auto process = number(*driver, "process");
    text += fmt::format("driver: {}, {} bytes of memory; {} commands refused, {} faults\n",
                        process == 0 ? "the kernel's" : fmt::format("process {}", process),
                        number(*driver, "memory_bytes"), number(*driver, "commands_refused"),
                        number(*driver, "faults"));
  } else {
    text += "driver: none, so frames go nowhere\n";
  }
  Table table({"port", "interface"});
  for (const Json& port : card.at("ports")) table.add({word(port, "port"), interface_of(port)});
  return text + table.text(2);
}

std::string flows_text(const Json& card) {
  std::string text;
  for (const Json& flow : card.at("flows")) {
    text += fmt::format("{} packets, {} bytes: {}\n", number(flow, "packets"),
                        number(flow, "bytes"), word(flow, "rule"));
  }
  return text.empty() ? "no rules\n" : text;
}

std::string stats_text(const Json& card) {
  Table table(
      {"port", "offloaded", "bytes", "to driver", "bytes", "from driver", "bytes", "dropped"});
  for (const Json& port : card.at("ports")) {
    const auto cell = [&port](const char* key) { return std::to_string(number(port, key)); };
    const auto dropped = number(port, "no_buffer_dropped") + number(port, "egress_dropped");
    table.add({word(port, "port"), cell("offloaded_packets"), cell("offloaded_bytes"),
               cell("missed_packets"), cell("missed_bytes"), cell("sent_packets"),
               cell("sent_bytes"), std::to_string(dropped)});
  }
  return table.text();
}

/// A command that asks the card one question and prints the answer.
struct Question {
  const char* command;
  const char* ask;
  const char* help;
  const char* examples;
  std::string (*text)(const Json& answer);
};

struct Form {
  std::string name = "default";
  bool as_json = false;
  bool watch = false;
};

int put(const Question& question, const Form& form) {
  for (;;) {
    const auto answer = service::ask({.kind = "nic", .name = form.name}, {{"ask", question.ask}});
    if (!answer) {
      fmt::print(stderr, "verbatim nic {}: {}\n", question.command, answer.error().text);
      return kExitFailure;
    }
    if (form.as_json) {
      fmt::print("{}\n", answer->dump(2));
    } else {
      fmt::print("{}", question.text(*answer));
    }
    if (!form.watch) return 0;
    std::fflush(stdout);
    sleep(kWatchSeconds);
  }
}

CLI::App& add_question(CLI::App& nic, const Question& question, const std::shared_ptr<Form>& form,
                       int& exit_status) {
  auto* command = nic.add_subcommand(question.command, question.help);
  command->add_option("--name", form->name, "The card's name");
  command->add_flag("--json", form->as_json, "Print JSON");
  command->footer(question.examples);
  command->callback([question, form, &exit_status] { exit_status = put(question, *form); });
  return *command;
}

}  // namespace

void add_show(CLI::App& nic, int& exit_status) {
  add_question(nic,
               {"show", "status", "Show a card: ports, driver, number of rules",
                "Examples:\n  verbatim nic show", show_text},
               std::make_shared<Form>(), exit_status);
}

void add_flows(CLI::App& nic, int& exit_status) {
  add_question(nic,
               {"flows", "flows", "Show the rules of a card and what they counted",
                "Rules are printed as commands of dpdk-testpmd.\n\nExamples:\n  verbatim nic flows",
                flows_text},
               std::make_shared<Form>(), exit_status);
}

void add_stats(CLI::App& nic, int& exit_status) {
  auto form = std::make_shared<Form>();
  auto& command =
      add_question(nic,
                   {"stats", "stats", "Show what a card's ports have counted",
                    "Examples:\n  verbatim nic stats\n  verbatim nic stats --watch", stats_text},
                   form, exit_status);
  command.add_flag("--watch", form->watch, "Once a second");
}

}  // namespace verbatim::cli::nic
