#include "base/files/login_files.h"

#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/unique_fd.h"

namespace verbatim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"sys/class/scsi_host", "sys/class/srp_remote_ports",
                                    "sys/class/nvme", "sys/class/nvme-subsystem",
                                    "sys/class/nvme-fabrics"};

/// What a program reads of /dev/nvme-fabrics before it connects: the options of Linux 6.1.
constexpr std::string_view kFabricsOptions =
    "instance=-1\ncntlid=-1\ntransport=%s\ntraddr=%s\ntrsvcid=%s\nnqn=%s\nqueue_size=%d\n"
    "nr_io_queues=%d\nreconnect_delay=%d\nctrl_loss_tmo=%d\nkeep_alive_tmo=%d\nhostnqn=%s\n"
    "host_traddr=%s\nhost_iface=%s\nhostid=%s\nduplicate_connect\ndisable_sqflow\nhdr_digest\n"
    "data_digest\nnr_write_queues=%d\nnr_poll_queues=%d\ntos=%d\nfast_io_fail_tmo=%d\ndiscovery\n"
    "dhchap_secret=%s\ndhchap_ctrl_secret=%s\n";

bool write_file(const fs::path& path, std::string_view text, mode_t mode) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         fchmod(file.get(), mode) == 0;
}

}  // namespace

bool write_login_files(const std::string& root, std::string_view device, unsigned ports) {
  std::error_code error;
  bool is_written = true;
  for (const char* const folder : kFolders) {
    fs::create_directories(fs::path(root) / folder, error);
    is_written &= !error;
  }
  const std::string name(device);
  for (unsigned port = 1; port <= ports; ++port) {
    const std::string number = std::to_string(port);
    const fs::path folder =
        fs::path(root) / "sys/class/infiniband_srp" / ("srp-" + name + "-" + number);
    is_written &= write_file(folder / "ibdev", name + "\n", 0444);
    is_written &= write_file(folder / "port", number + "\n", 0444);
    is_written &= write_file(folder / "add_target", "", 0200);
  }
  return is_written && write_file(fs::path(root) / "dev/nvme-fabrics", kFabricsOptions, 0600);
}

}  // namespace verbatim
