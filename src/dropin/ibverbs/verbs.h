#pragma once

#include <cstddef>
#include <cstdint>

/// The C interface of this folder: libibverbs' own header, and the library's further exports.
/// Everything declared here is exported; all else is hidden.
#pragma GCC visibility push(default)

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

// The header hides these entry points behind macros; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" {

const char* ibv_get_sysfs_path();
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, std::size_t size);
int ibv_query_port_speed(ibv_context* context, std::uint32_t port_num, std::uint64_t* port_speed);
int ibv_dontfork_range(void* base, std::size_t size);
int ibv_dofork_range(void* base, std::size_t size);

void ibv_copy_ah_attr_from_kern(ibv_ah_attr* dst, ib_uverbs_ah_attr* src);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* dst, ib_uverbs_qp_attr* src);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* dst, ib_user_path_rec* src);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* dst, ibv_sa_path_rec* src);

// Private to rdma-core's own libraries and tools.
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };
int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                       ibv_gid_type_sysfs* type);
struct verbs_sysfs_dev;
int ibv_read_ibdev_sysfs_file(char* buf, std::size_t size, verbs_sysfs_dev* device,
                              const char* name_format, ...) __attribute__((format(printf, 4, 5)));
const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);
void __verbs_log(verbs_context* context, std::uint32_t level, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // extern "C"

#pragma GCC visibility pop
