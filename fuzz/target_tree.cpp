// Any sequence of operations on the tree of storage targets, with a daemon that refuses some: what
// a name or a value is, the tree's counts stay right, links point to what is there, and everything
// can be removed again.
#include <cerrno>
#include <string>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/target_tree/lio/lio.h"
#include "ulp/target_tree/nvmet.h"
#include "ulp/target_tree/tree.h"

namespace {

using namespace verbatim::ulp::target_tree;

class AnyHooks : public Hooks {
 public:
  explicit AnyHooks(Input& input) : input_(input) {}
  int on_write(const Node& /*directory*/, std::string_view /*attribute*/,
               std::string_view /*value*/) override {
    return answer();
  }
  int on_make(const Node& /*directory*/) override { return answer(); }
  int on_remove(const Node& /*directory*/) override { return answer(); }
  int on_link(const Node& /*directory*/, const Node& /*target*/) override { return answer(); }
  int on_unlink(const Node& /*directory*/, const Node& /*target*/) override { return answer(); }
  std::string random_digits(std::size_t count) override { return std::string(count, 'f'); }

  bool is_asked = false;

 private:
  int answer() { return is_asked && input_.byte() == 0xff ? EINVAL : 0; }
  Input& input_;
};

/// Names that the rules know, beside those that the input spells.
constexpr std::string_view kNames[] = {
    "iscsi", "srpt", "fileio_0", "rd_mcp_1", "tpgt_1",        "lun_0", "lun_1",
    "1",     "2",    "a",        "b",        "0x00",          "::1",   "10.0.0.1:3260",
    "..",    "",     "x/y",      "[::]:1",   "lun_9999999999"};
constexpr std::string_view kValues[] = {"0",
                                        "1",
                                        "2",
                                        "rdma",
                                        "tcp",
                                        "ipv4",
                                        "optimized",
                                        "CHAP,None",
                                        "Yes",
                                        "NULL",
                                        "g",
                                        "a",
                                        "64",
                                        "512",
                                        "/file",
                                        "-1",
                                        "\n",
                                        "",
                                        "fd_dev_name=/f,fd_dev_size=99",
                                        "rd_pages=9,rd_nullio=1,=,,x"};

std::string spelled(Input& input) {
  std::string text(input.byte() % 40, ' ');
  for (char& c : text) c = static_cast<char>(input.byte());
  return text;
}

/// All paths of directories and links; counts what is there as the tree does.
void walk(const Tree& tree, const Node& node, std::vector<std::string>& paths, Tally& tally) {
  ++tally.nodes;
  tally.bytes += node.name.size();
  for (const std::string& value : node.values) tally.bytes += value.size();
  if (node.parent != nullptr) paths.push_back(node.path());
  VERBATIM_ASSERT(tree.stat(node.path()).has_value());
  for (const Node* link : node.links_here) VERBATIM_ASSERT(link->target == &node);
  for (const auto& child : node.children) walk(tree, *child, paths, tally);
}

std::vector<std::string> check(const Tree& tree) {
  std::vector<std::string> paths;
  Tally tally;
  walk(tree, tree.root(), paths, tally);
  VERBATIM_ASSERT(tally.nodes == tree.tally().nodes && tally.bytes == tree.tally().bytes);
  return paths;
}

/// Reads all that can be read below a directory.
void read_all(const Tree& tree, const std::string& path) {
  for (const std::string& name : *tree.list(path)) {
    std::string attribute = path;
    attribute.append("/").append(name);
    static_cast<void>(tree.read(attribute));
  }
}

std::string pick(const std::vector<std::string>& paths, Input& input) {
  return paths[input.two() % paths.size()];
}

void change(Tree& tree, const std::vector<std::string>& paths, Input& input) {
  const std::string path = pick(paths, input);
  const auto one_of = [&](const auto& known) {
    const std::uint32_t at = input.byte();
    return at < std::size(known) ? std::string(known[at]) : spelled(input);
  };
  switch (input.byte() % 6) {
    case 0:
      static_cast<void>(tree.mkdir(path + "/" + one_of(kNames)));
      break;
    case 1:
      static_cast<void>(tree.rmdir(path));
      break;
    case 2:
      static_cast<void>(tree.symlink(pick(paths, input), path + "/" + one_of(kNames)));
      break;
    case 3:
      static_cast<void>(tree.unlink(path));
      break;
    case 4: {
      const auto names = tree.list(path);
      if (!names || names->empty()) break;
      const std::string attribute = path + "/" + (*names)[input.byte() % names->size()];
      static_cast<void>(tree.write(attribute, one_of(kValues)));
      break;
    }
    default:
      read_all(tree, path);
      static_cast<void>(tree.readlink(path));
      static_cast<void>(tree.chmod(path, input.two()));
  }
}

/// What administrators have made before: a device in a LUN that an ACL maps, a port that listens.
void prepare(Tree& tree) {
  const std::string group = "target/iscsi/a/tpgt_1";
  for (const std::string& path :
       {std::string("target/iscsi"), std::string("target/iscsi/a"), group, group + "/lun/lun_0",
        group + "/acls/a", group + "/acls/a/lun_0", std::string("target/core/rd_mcp_1"),
        std::string("target/core/rd_mcp_1/a"), std::string("target/core/rd_mcp_1/a/alua/g"),
        std::string("nvmet/subsystems/a"), std::string("nvmet/ports/1")})
    static_cast<void>(tree.mkdir(path));
  static_cast<void>(tree.write("target/core/rd_mcp_1/a/control", "rd_pages=9"));
  static_cast<void>(tree.write("target/core/rd_mcp_1/a/enable", "1"));
  static_cast<void>(tree.write("nvmet/ports/1/addr_trtype", "rdma"));
  VERBATIM_ASSERT(tree.symlink("target/core/rd_mcp_1/a", group + "/lun/lun_0/a").has_value());
  VERBATIM_ASSERT(tree.symlink(group + "/lun/lun_0", group + "/acls/a/lun_0/a").has_value());
  VERBATIM_ASSERT(tree.symlink("nvmet/subsystems/a", "nvmet/ports/1/subsystems/a").has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool is_prepared = (input.byte() & 1) != 0;
  AnyHooks hooks(input);
  Tree tree(hooks);
  tree.add("nvmet", kNvmet);
  tree.add("target", kLio);
  if (is_prepared) prepare(tree);
  hooks.is_asked = true;
  while (!input.empty()) change(tree, check(tree), input);
  // The input is at its end, so the daemon refuses nothing: links first, then from below.
  for (int round = 0; round < 16; ++round)
    for (const std::string& path : check(tree))
      if (!tree.unlink(path)) static_cast<void>(tree.rmdir(path));
  VERBATIM_ASSERT(!tree.root().child("nvmet")->child("hosts")->has_made_children());
  VERBATIM_ASSERT(!tree.root().child("target")->has_made_children());
  VERBATIM_ASSERT(!tree.root().child("target")->child("core")->has_made_children());
  return 0;
}
