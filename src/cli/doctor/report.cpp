#include "cli/doctor/report.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli::doctor {
namespace {

struct VerdictWord {
  std::string_view word;
  std::string_view colour;  // An SGR sequence.
};
constexpr std::array<VerdictWord, 3> kVerdicts{{
    {"ok", "\033[32m"},
    {"note", "\033[33m"},
    {"fault", "\033[1;31m"},
}};
constexpr std::string_view kEndOfColour = "\033[0m";
constexpr std::size_t kWordWidth = 5;
constexpr std::string_view kAdviceMark = "-> ";

const VerdictWord& word_of(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)]; }

/// Returns `text` in lines of at most `width` columns; all but the first are indented.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  constexpr std::size_t kNarrowest = 20;
  if (width < indent + kNarrowest) return std::string(text);
  const std::size_t room = width - indent;
  std::string lines;
  while (text.size() > room) {
    std::size_t end = text.rfind(' ', room);
    if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    lines.append(text.substr(0, end)).append("\n").append(indent, ' ');
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines.append(text);
}

std::string line_of(const Finding& finding, std::size_t subject_width, const ReportStyle& style) {
  const VerdictWord& verdict = word_of(finding.verdict);
  const std::string padding(kWordWidth - verdict.word.size(), ' ');
  const std::string word = style.is_coloured
                               ? fmt::format("{}{}{}", verdict.colour, verdict.word, kEndOfColour)
                               : std::string(verdict.word);
  const std::size_t indent = 2 + kWordWidth + 2 + subject_width + 2;
  std::string line = fmt::format("  {}{}  {:<{}}  {}\n", word, padding, finding.subject,
                                 subject_width, wrapped(finding.text, indent, style.width));
  if (finding.advice.empty()) return line;
  return line + std::string(indent, ' ') +
         fmt::format("{}{}\n", kAdviceMark,
                     wrapped(finding.advice, indent + kAdviceMark.size(), style.width));
}

std::string counted(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number == 0 ? "no" : std::to_string(number), what,
                     number == 1 ? "" : "s");
}

}  // namespace

std::size_t count(const std::vector<Section>& sections, Verdict verdict) {
  std::size_t number = 0;
  for (const Section& section : sections) {
    number +=
        static_cast<std::size_t>(std::ranges::count(section.findings, verdict, &Finding::verdict));
  }
  return number;
}

std::string report_text(const std::vector<Section>& sections, const ReportStyle& style) {
  std::size_t subject_width = 0;
  for (const Section& section : sections) {
    for (const Finding& finding : section.findings) {
      subject_width = std::max(subject_width, finding.subject.size());
    }
  }
  std::string text;
  for (const Section& section : sections) {
    text += section.title + "\n";
    for (const Finding& finding : section.findings) {
      text += line_of(finding, subject_width, style);
    }
    text += "\n";
  }
  return text + fmt::format("{}, {}.\n", counted(count(sections, Verdict::fault), "fault"),
                            counted(count(sections, Verdict::note), "note"));
}

std::string report_json(const std::vector<Section>& sections) {
  using Json = nlohmann::ordered_json;
  Json findings = Json::array();
  for (const Section& section : sections) {
    for (const Finding& finding : section.findings) {
      findings.push_back({{"about", section.title},
                          {"verdict", word_of(finding.verdict).word},
                          {"subject", finding.subject},
                          {"text", finding.text},
                          {"advice", finding.advice}});
    }
  }
  const Json report = {{"version", VERBATIM_VERSION},
                       {"faults", count(sections, Verdict::fault)},
                       {"notes", count(sections, Verdict::note)},
                       {"findings", findings}};
  return report.dump(2) + "\n";
}

}  // namespace verbatim::cli::doctor
