#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace verbatim::cli::doctor {

/// Findings about one thing: "machine", "program /usr/bin/ib_write_bw".
struct Section {
  std::string title;
  Findings findings;
};

struct ReportStyle {
  bool is_coloured = false;
  std::size_t width = 0;  // Columns of the terminal, at which lines are broken; 0: they are not.
};

std::size_t count(const std::vector<Section>& sections, Verdict verdict);

/// For a person: a line for each finding, with what to do below it, and a sum at the end.
std::string report_text(const std::vector<Section>& sections, const ReportStyle& style);
/// For a program.
std::string report_json(const std::vector<Section>& sections);

}  // namespace verbatim::cli::doctor
