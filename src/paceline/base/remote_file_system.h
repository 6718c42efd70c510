#pragma once

// Which file systems keep their files on other machines. Locks may not work on these.

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace paceline {

// True if `type`, the f_type of statfs(2), is a network file system. FUSE counts as one.
inline bool IsRemoteFileSystem(int64_t type) {
  // From linux/magic.h and the file systems' own headers: NFS, SMB, CIFS, SMB2, Ceph, Lustre, GPFS,
  // BeeGFS, FUSE, 9P, AFS.
  constexpr uint32_t kRemote[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                  0x00c36400, 0x0bd00bd0, 0x47504653, 0x19830326,
                                  0x65735546, 0x01021997, 0x5346414f};
  // Only the lower 32 bits count: some kernels fill the upper ones with the sign of the constant.
  return std::find(std::begin(kRemote), std::end(kRemote), static_cast<uint32_t>(type)) !=
         std::end(kRemote);
}

}  // namespace paceline
