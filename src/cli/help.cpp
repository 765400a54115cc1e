#include "cli/help.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/text/nearest.h"
#include "cli/text/wrap.h"

namespace verbatim::cli {
namespace {

constexpr std::size_t kColumns = 80;  // Of a terminal.

/// What a command takes besides options.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kWords{{
    {"verbatim run", " -- COMMAND [ARGUMENT]..."},
    {"verbatim capture", " -w FILE [-- COMMAND [ARGUMENT]...]"},
    {"verbatim config", " [NODE]"},
    {"verbatim doctor", " [-- PROGRAM]"},
    {"verbatim fault", " [NODE] FAULTS|off|show"},
    {"verbatim fabric capture", " FILE"},
    {"verbatim fabric generate", " KIND --hosts N"},
    {"verbatim fabric link", " PORT down|up|degrade|errors [RATE]"},
    {"verbatim fabric trunk", " PORT --listen|--to ADDRESS:PORT"},
    {"verbatim fabric up", " TOPOLOGY"},
    {"verbatim nic ovs", " up|down|shell [-- COMMAND [ARGUMENT]...]"},
}};

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string with_suggestion(std::string text, const std::string& meant) {
  return meant.empty() ? text : fmt::format("{}; '{}' may be meant", text, meant);
}

std::string unknown_word(const CLI::App& app, const std::string& word) {
  const auto commands = commands_of(app);
  if (!word.starts_with('-') && !commands.empty()) {
    return with_suggestion(fmt::format("there is no command '{}'", word), nearest(word, commands));
  }
  if (!word.starts_with('-')) {
    const auto options = options_of(app);
    const bool may_be_name = std::ranges::find(options, "--name") != options.end();
    return with_suggestion(fmt::format("'{}' is one word too many", word),
                           may_be_name ? fmt::format("--name {}", word) : "");
  }
  return with_suggestion(fmt::format("there is no option '{}'", word),
                         nearest(word, options_of(app)));
}

/// Returns "verbatim run".
std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr
             ? app.get_name()
             : fmt::format("{} {}", full_name(*app.get_parent()), app.get_name());
}

/// Commands may have commands: "fabric up".
const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_command(*chosen.front());
}

/// CLI11 lists all words that it does not know: "... not expected: VALUE --option", in any order.
/// An unknown option leaves its value over, too, so the option is reported.
std::string offending_word(std::string_view text) {
  constexpr std::string_view kBefore = "expected: ";
  const auto list = text.find(kBefore);
  if (list != std::string_view::npos) text.remove_prefix(list + kBefore.size());
  const auto option = text.starts_with('-') ? 0 : text.find(" -") + 1;
  text.remove_prefix(option);
  return std::string(text.substr(0, text.find(' ')));
}

std::string with_help(const CLI::App& app, const std::string& text) {
  return fmt::format("{0}: {1}\n'{0} --help' tells more.\n", full_name(app), text);
}

}  // namespace

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return app->get_description() + "\n\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string /*name*/) const {
  const std::string name = full_name(*app);
  if (!commands_of(*app).empty()) return fmt::format("Usage: {} COMMAND [OPTION]...\n", name);
  const auto found =
      std::ranges::find(kWords, name, &std::pair<std::string_view, std::string_view>::first);
  return fmt::format("Usage: {} [OPTION]...{}\n", name, found == kWords.end() ? "" : found->second);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kColumns - get_column_width());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return wrapped(CLI::Formatter::make_footer(app), kColumns);
}

Result<std::vector<std::string>> command_line_of(const CLI::App& app,
                                                 const std::vector<std::string>& after_dashes) {
  auto words = app.remaining();
  if (!words.empty() && words.front().starts_with('-')) {
    return refuse(EINVAL, with_help(app, unknown_word(app, words.front())));
  }
  words.insert(words.end(), after_dashes.begin(), after_dashes.end());
  return words;
}

std::string explain(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& command = chosen_command(app);
  if (&command == &app) return with_help(app, "which command? It comes first");
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return with_help(command, unknown_word(command, offending_word(error.what())));
  }
  // CLI11 looks first whether a command of the group is there.
  if (const auto words = command.remaining(); !words.empty() && !commands_of(command).empty()) {
    return with_help(command, unknown_word(command, words.front()));
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string what = error.what();
    return with_help(command,
                     fmt::format("option '{}' needs a value", what.substr(0, what.find(':'))));
  }
  return with_help(command, error.what());
}

std::string explain_unknown_command(const CLI::App& app, const std::string& word) {
  const auto commands = commands_of(app);
  const bool is_known = std::ranges::find(commands, word) != commands.end();
  if (is_known) return {};
  if (word.starts_with('-')) {
    const auto options = options_of(app);
    const bool is_option = word == "-h" || std::ranges::find(options, word) != options.end();
    return is_option ? "" : with_help(app, unknown_word(app, word));
  }
  return with_help(app, unknown_word(app, word));
}

}  // namespace verbatim::cli
