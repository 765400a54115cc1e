#include "cli/sockets/preload.h"

#include <cstdlib>

#include "cli/environment.h"
#include "cli/text/preload_word.h"

namespace verbatim::cli {

Result<void> add_preload(const std::string& library) {
  const auto own = own_folder();
  if (!own) return std::unexpected(own.error());
  const auto dropins = find_dropin_folder(*own);
  if (!dropins) return std::unexpected(dropins.error());
  const std::string path = *dropins + library, word = preload_word(path);
  if (word != path) {
    const char* const folders = getenv("LD_LIBRARY_PATH");
    const std::string folder = path.substr(0, path.rfind('/'));
    setenv("LD_LIBRARY_PATH", prepend_folder(folder, folders == nullptr ? "" : folders).c_str(), 1);
  }
  setenv("LD_PRELOAD", with_library(getenv("LD_PRELOAD"), word).c_str(), 1);
  return {};
}

}  // namespace verbatim::cli
