#pragma once

#include <cstdint>
#include <string>

#include "ulp/initiator/nvme/device_request.h"
#include "ulp/initiator/nvme/nvme_controller.h"
#include "ulp/initiator/nvme/nvme_controllers.h"

namespace verbatim::ulp::initiator {

/// What a program's call on a device returns: its result, a number, and data.
std::string answer_of(int result, std::uint64_t value = 0, ByteSpan data = {});

/// What a command that a program has passed on returns.
NvmeController::OnAnswer passed(const DeviceRequest& request, NvmeControllers::Controlled done);

}  // namespace verbatim::ulp::initiator
