// Operations of administrators' programs, each with the answer of Linux's own tree (kernel 6.1).
#include <cerrno>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ulp/target_tree/fake_hooks_for_test.h"
#include "ulp/target_tree/lio/lio.h"
#include "ulp/target_tree/nvmet.h"
#include "ulp/target_tree/rdma_cm.h"
#include "ulp/target_tree/tree.h"

namespace verbatim::ulp::target_tree {
namespace {

std::string error_name(int code) {
  static const std::map<int, std::string> kNames{
      {EPERM, "EPERM"},           {ENOENT, "ENOENT"},
      {EACCES, "EACCES"},         {EFAULT, "EFAULT"},
      {EBUSY, "EBUSY"},           {EEXIST, "EEXIST"},
      {ENODEV, "ENODEV"},         {EINVAL, "EINVAL"},
      {ERANGE, "ERANGE"},         {ENOSYS, "ENOSYS"},
      {ENOTEMPTY, "ENOTEMPTY"},   {EOVERFLOW, "EOVERFLOW"},
      {EADDRINUSE, "EADDRINUSE"}, {EADDRNOTAVAIL, "EADDRNOTAVAIL"}};
  const auto found = kNames.find(code);
  return found == kNames.end() ? std::to_string(code) : found->second;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    out += text[++i] == 'n' ? '\n' : '\0';
  }
  return out;
}
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "\\n" : c == '\0' ? "\\0" : std::string(1, c);
  return out;
}

std::string text(const Answer<void>& answer) { return answer ? "ok" : error_name(answer.error()); }
std::string text(const Answer<std::string>& answer) {
  return answer ? "'" + escaped(*answer) + "'" : error_name(answer.error());
}

std::string listed(const Tree& tree, const std::string& path) {
  const auto names = tree.list(path);
  if (!names) return error_name(names.error());
  return fmt::format("[{}]", fmt::join(std::set(names->begin(), names->end()), " "));
}

std::string status(const Tree& tree, const std::string& path) {
  const auto status = tree.stat(path);
  if (!status) return error_name(status.error());
  return fmt::format("{:o} {} {}", status->mode, status->bytes, status->links);
}

/// Writes each value, and tells what came of it; then writes what was there before.
std::string values(Tree& tree, const std::string& path) {
  constexpr std::string_view kValues[] = {
      "0",    "1",      "2",   "7",    "-1",    "abc",     "",         "Yes",        "No",
      "None", "CRC32C", "512", "4096", "65536", "1048576", "16777216", "4294967295", "99999999999"};
  const auto shown = [&] {
    std::string all = tree.read(path).value_or("");
    while (all.ends_with('\n')) all.pop_back();
    return all;
  };
  const std::string before = shown();
  std::vector<std::string> results;
  for (const std::string_view value : kValues) {
    const auto taken = tree.write(path, value);
    const std::string after = shown();
    results.push_back(!taken ? error_name(taken.error()) : after == value ? "=" : escaped(after));
  }
  static_cast<void>(tree.write(path, before));
  return fmt::format("{}", fmt::join(results, "|"));
}

/// Does one operation; the words of a line are its name, a path, and what belongs to it.
std::string done(Tree& tree, FakeHooks& hooks, const std::string& operation,
                 const std::string& path, const std::string& more) {
  if (operation == "mkdir") return text(tree.mkdir(path));
  if (operation == "rmdir") return text(tree.rmdir(path));
  if (operation == "link") return text(tree.symlink(more, path));
  if (operation == "unlink") return text(tree.unlink(path));
  if (operation == "readlink") return text(tree.readlink(path));
  if (operation == "read") return text(tree.read(path));
  if (operation == "shown")
    return fmt::format("{:o} {}", tree.stat(path).value_or(Status{}).mode, text(tree.read(path)));
  if (operation == "values") return values(tree, path);
  if (operation == "list") return listed(tree, path);
  if (operation == "stat") return status(tree, path);
  if (operation == "chmod")
    return text(tree.chmod(path, static_cast<unsigned>(std::stoul(more, nullptr, 8))));
  if (operation == "hook") return hooks.prepare(path, unescaped(more));
  if (operation != "write") return "unknown operation";
  const std::string bytes = unescaped(more);
  const auto taken = tree.write(path, bytes);
  if (!taken) return error_name(taken.error());
  return *taken == bytes.size() ? "ok" : "cut";
}

/// A line of a table: OPERATION <tab> PATH <tab> MORE <tab> ANSWER.
void run(const std::string& name, std::size_t operations) {
  FakeHooks hooks;
  Tree tree(hooks);
  tree.add("rdma_cm", kRdmaCm);
  const bool is_nvmet = name.ends_with("nvmet");
  tree.add(is_nvmet ? "nvmet" : "target", is_nvmet ? kNvmet : kLio);
  std::ifstream file(OPERATIONS_FOLDER "/" + name + ".txt");
  std::size_t done_count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> words(1);
    for (const char c : line)
      if (c == '\t')
        words.emplace_back();
      else
        words.back() += c;
    ASSERT_EQ(words.size(), 4U) << line;
    EXPECT_EQ(done(tree, hooks, words[0], words[1], words[2]), words[3]) << line;
    done_count += words[0] == "hook" ? 0 : 1;
  }
  EXPECT_EQ(done_count, operations);
}

TEST(TargetTree, NvmetAnswersAsTheKernelDoes) { run("nvmet", 159); }
TEST(TargetTree, LioAnswersAsTheKernelDoes) { run("lio", 308); }
TEST(TargetTree, PortalsGroupsAndSessionsAnswerAsTheKernels) { run("portals", 62); }
TEST(TargetTree, NvmetShowsWhatTheKernelShows) { run("defaults_nvmet", 49); }
TEST(TargetTree, LioShowsWhatTheKernelShows) { run("defaults_lio", 489); }
TEST(TargetTree, NvmetTakesWhatTheKernelTakes) { run("values_nvmet", 33); }
TEST(TargetTree, LioTakesWhatTheKernelTakes) { run("values_lio", 177); }

}  // namespace
}  // namespace verbatim::ulp::target_tree
