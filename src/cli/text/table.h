#pragma once

#include <string>
#include <utility>
#include <vector>

namespace verbatim::cli {

/// Rows of text in aligned columns. Numbers are right-aligned, the rest left-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  /// Requires as many cells as the header has.
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  /// Each row ends with a line end; lines have no trailing spaces.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace verbatim::cli
