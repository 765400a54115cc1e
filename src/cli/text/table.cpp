#include "cli/text/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::cli {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && std::ranges::all_of(cell, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  VERBATIM_ASSERT(row.size() == header_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
  for (std::size_t column = 0; column < header_.size(); ++column) {
    widths.push_back(header_[column].size());
    numeric.push_back(!rows_.empty());
    for (const auto& row : rows_) {
      widths[column] = std::max(widths[column], row[column].size());
      numeric[column] = numeric[column] && is_number(row[column]);
    }
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line(indent, ' ');
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column > 0) line += "  ";
      line += numeric[column] ? fmt::format("{:>{}}", row[column], widths[column])
                              : fmt::format("{:<{}}", row[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(header_);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace verbatim::cli
