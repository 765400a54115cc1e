#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"

/// How the commands explain themselves, and what they say of a wrong command line.
namespace verbatim::cli {

/// For the application; its commands inherit it.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

/// The command line of a command that `--` separates from ours, or else that begins with the first
/// word that is no option of ours. EINVAL in words if that word looks like an option.
Result<std::vector<std::string>> command_line_of(const CLI::App& app,
                                                 const std::vector<std::string>& after_dashes);

/// Of a command line that cannot be understood: what is wrong, what may be meant, where help is.
std::string explain(const CLI::App& app, const CLI::Error& error);

/// What is said of a first word that is no command; empty if it is one, or an option.
std::string explain_unknown_command(const CLI::App& app, const std::string& word);

}  // namespace verbatim::cli
