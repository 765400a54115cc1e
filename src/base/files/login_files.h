#pragma once

#include <string>
#include <string_view>

namespace verbatim {

/// Writes into a view of /sys and /dev (`root`) the files by which programs log in to storage
/// targets, and folders, still empty, where they look for what is logged in: `add_target` of SRP
/// for each of the device's ports, and /dev/nvme-fabrics. The view's library asks a daemon instead
/// when one is written to (src/ulp/initiator). Returns false if they cannot be written.
bool write_login_files(const std::string& root, std::string_view device, unsigned ports);

}  // namespace verbatim
