// What programs write to log in to storage targets, and their ioctls on devices: any bytes.
#include <string_view>

#include "base/assert.h"
#include "fuzz/input.h"
#include "ulp/initiator/nvme/device_request.h"
#include "ulp/initiator/nvme/fabrics_options.h"
#include "ulp/nvmeof/wire/identify_data.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const auto options = ulp::initiator::parse_fabrics_options(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (options) VERBATIM_ASSERT(!options->subsystem.empty() && !options->to.empty());
  const auto request = ulp::initiator::decode_device_request(bytes);
  if (request) VERBATIM_ASSERT(request->data.size() <= request->data_bytes);
  std::array<std::byte, ulp::nvmeof::kIdentifyBytes> page{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), page.size())), page.begin());
  VERBATIM_ASSERT(ulp::nvmeof::decode_space_list(page).size() <= page.size() / 4);
  static_cast<void>(ulp::nvmeof::decode_uuid(page));
  static_cast<void>(ulp::nvmeof::decode_names(page));
  return 0;
}
