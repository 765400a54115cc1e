#include <infinity/core/Configuration.h>

namespace infinity::core {

// Defined, so that a program may take their addresses, as std::min does.
const uint32_t Configuration::SEND_COMPLETION_QUEUE_LENGTH;
const uint32_t Configuration::RECV_COMPLETION_QUEUE_LENGTH;
const uint32_t Configuration::SHARED_RECV_QUEUE_LENGTH;
const uint32_t Configuration::MAX_NUMBER_OF_OUTSTANDING_REQUESTS;
const uint32_t Configuration::MAX_NUMBER_OF_SGE_ELEMENTS;
const uint32_t Configuration::PAGE_SIZE;
const uint32_t Configuration::MAX_CONNECTION_USER_DATA_SIZE;

}  // namespace infinity::core
