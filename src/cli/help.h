#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"

/// Help texts of the commands, and explanations of wrong command lines.
namespace verbatim::cli {

/// For the application; its subcommands inherit it.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_footer(const CLI::App* app) const override;
};

/// Returns the command line of the program to start: the words after `--`, or else from the first
/// word that is not one of our options. EINVAL with a text if that word looks like an option.
Result<std::vector<std::string>> command_line_of(const CLI::App& app,
                                                 const std::vector<std::string>& after_dashes);

/// Explains a wrong command line: the error, what was probably meant, and where help is.
std::string explain(const CLI::App& app, const CLI::Error& error);

/// Explains a first word that is no command; empty if it is one, or an option.
std::string explain_unknown_command(const CLI::App& app, const std::string& word);

}  // namespace verbatim::cli
