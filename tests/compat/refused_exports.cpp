// Exported functions that are not implemented: src/dropin/*/exports.txt lists them, and how they
// fail.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <dlfcn.h>

#include "refused.h"

namespace refused {
namespace {

struct Export {
  std::string name;
  std::string version;
  std::string kind;  // errno, minus_one, null or nothing, as explained in the file.
};

std::vector<Export> unserved(const std::string& library) {
  std::vector<Export> found;
  std::ifstream list(VERBATIM_SOURCES "/src/dropin/" + library + "/exports.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string symbol;
    Export entry;
    words >> symbol >> entry.kind;
    if (symbol.starts_with('#')) continue;
    if (entry.kind != "errno" && entry.kind != "minus_one" && entry.kind != "null" &&
        entry.kind != "nothing") {
      continue;
    }
    entry.name = symbol.substr(0, symbol.find('@'));
    entry.version = symbol.substr(symbol.rfind('@') + 1);
    found.push_back(entry);
  }
  return found;
}

int call(void* function, const std::string& kind) {
  errno = 0;
  if (kind == "errno") return reinterpret_cast<int (*)()>(function)();
  if (kind == "minus_one") return errno_of(reinterpret_cast<int (*)()>(function)());
  if (kind == "null") return errno_of(reinterpret_cast<void* (*)()>(function)());
  reinterpret_cast<void (*)()>(function)();
  return EOPNOTSUPP;  // It reports only by its log line.
}

/// Returns EOPNOTSUPP if all of them do. They ignore their arguments, so any can be passed.
int call_all(const std::string& library, const std::vector<Export>& functions) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) return kNoBench;
  for (const Export& one : functions) {
    void* const function = dlvsym(handle, one.name.c_str(), one.version.c_str());
    if (function == nullptr) return kNoBench;
    if (const int answer = call(function, one.kind); answer != EOPNOTSUPP) return answer;
  }
  return EOPNOTSUPP;
}

/// Groups the functions by version; the versions are rdma-core's, in order.
std::map<std::string, std::vector<Export>> by_version(const std::vector<Export>& all) {
  std::map<std::string, std::vector<Export>> versions;
  for (const Export& one : all) versions[one.version].push_back(one);
  return versions;
}

std::string names_of(const std::vector<Export>& functions) {
  std::string names;
  for (const Export& one : functions) names += (names.empty() ? "" : "`, `") + one.name;
  return names;
}

void add(Rows& rows, const std::string& library, const std::vector<Export>& functions,
         const std::string& shown, const std::string& why) {
  if (functions.empty()) return;
  const std::string file = "lib" + library + ".so.1";
  // Libraries try ibv_reg_mr_ex at each start: it gets no line.
  const auto lines = static_cast<std::size_t>(std::ranges::count_if(
      functions, [](const Export& one) { return one.name != "ibv_reg_mr_ex"; }));
  rows.push_back({shown.empty() ? names_of(functions) : shown, "", EOPNOTSUPP, why,
                  [file, functions](const Bench&) { return call_all(file, functions); }, lines});
}

}  // namespace

void add_unserved_exports(Rows& rows) {
  std::vector<Export> ancient, providers, newer;
  for (const Export& one : unserved("ibverbs")) {
    const bool is_private = one.version.starts_with("IBVERBS_PRIVATE");
    (one.version == "IBVERBS_1.0" ? ancient : is_private ? providers : newer).push_back(one);
  }
  const std::string not_yet = "not yet: newer than rdma-core 44";
  for (const auto& [_, functions] : by_version(newer)) add(rows, "ibverbs", functions, "", not_yet);
  add(rows, "rdmacm", unserved("rdmacm"), "", not_yet);
  add(rows, "ibverbs", ancient, "ibv_*@IBVERBS_1.0",
      "entry points with the layouts before 2007, which no program of today imports");
  add(rows, "ibverbs", providers, "ibv_cmd_*`, `verbs_*",
      "what providers call: they drive a kernel's device, and there is none");
}

}  // namespace refused
