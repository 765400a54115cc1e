#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace verbatim::cli::doctor {

/// Findings about one subject: "machine", "program /usr/bin/ib_write_bw".
struct Section {
  std::string title;
  Findings findings;
};

struct ReportStyle {
  bool is_coloured = false;
  std::size_t width = 0;  // Columns of the terminal, at which lines break; 0: never.
};

std::size_t count(const std::vector<Section>& sections, Verdict verdict);

/// Returns a report for users: a line for each finding with the advice below it, and a summary.
std::string report_text(const std::vector<Section>& sections, const ReportStyle& style);
/// Returns a report for programs.
std::string report_json(const std::vector<Section>& sections);

}  // namespace verbatim::cli::doctor
