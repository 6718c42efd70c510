#include "paceline/base/remote_file_system.h"

#include <gtest/gtest.h>
#include <linux/magic.h>

namespace paceline {
namespace {

TEST(RemoteFileSystemTest, KnowsNetworkFileSystems) {
  constexpr int64_t kBeeGfs = 0x19830326;
  constexpr int64_t kSmb2 = 0xfe534d42;
  for (const int64_t type : {int64_t{NFS_SUPER_MAGIC}, int64_t{CEPH_SUPER_MAGIC}, kBeeGfs, kSmb2}) {
    EXPECT_TRUE(IsRemoteFileSystem(type)) << std::hex << type;
  }
  EXPECT_TRUE(IsRemoteFileSystem(static_cast<int32_t>(kSmb2))) << "with its sign extended";
  EXPECT_FALSE(IsRemoteFileSystem(EXT4_SUPER_MAGIC));
  EXPECT_FALSE(IsRemoteFileSystem(TMPFS_MAGIC));
}

}  // namespace
}  // namespace paceline
