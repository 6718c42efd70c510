#include "paceline/cli/run/host_facts.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <memory>
#include <vector>

#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

std::vector<std::string> DirectoryNames(const char* path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path), closedir);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint32_t CountCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<uint32_t>(online) : 1;
}

// ROCm lists CPUs as topology nodes too; those have no SIMD units.
uint32_t CountRocmDevices() {
  uint32_t count = 0;
  const std::string root = "/sys/class/kfd/kfd/topology/nodes";
  for (const std::string& node : DirectoryNames(root.c_str())) {
    std::ifstream properties(root + "/" + node + "/properties");
    std::string name;
    uint64_t value = 0;
    while (properties >> name >> value) {
      if (name == "simd_count" && value > 0) ++count;
    }
  }
  return count;
}

uint32_t CountIntelDevices() {
  uint32_t count = 0;
  for (const std::string& name : DirectoryNames("/sys/class/drm")) {
    if (!name.starts_with("renderD")) continue;
    if (FirstLine("/sys/class/drm/" + name + "/device/vendor") == "0x8086") ++count;
  }
  return count;
}

std::optional<uint32_t> CountGpus(const Environment& environment) {
  const auto nvidia = static_cast<uint32_t>(DirectoryNames("/proc/driver/nvidia/gpus").size());
  const uint32_t rocm = nvidia == 0 ? CountRocmDevices() : 0;
  if (nvidia + rocm == 0) return std::nullopt;
  for (const std::string_view name :
       {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    if (nvidia > 0 && name != "CUDA_VISIBLE_DEVICES") continue;
    if (const auto list = Lookup(environment, name)) return VisibleDevices(*list, nvidia + rocm);
  }
  return nvidia + rocm;
}

std::string BinaryDirectory() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return "";
  const std::string binary(path, static_cast<size_t>(length));
  return binary.substr(0, binary.rfind('/'));
}

}  // namespace

uint32_t VisibleDevices(const std::string& list, uint32_t present) {
  uint32_t count = 0;
  for (const std::string& entry : Split(list, ',')) {
    const std::string_view device = Trimmed(entry);
    if (device.empty()) break;
    const auto index = ParseInteger(device);
    if (index.has_value() && (*index < 0 || *index >= present)) break;
    ++count;  // a UUID counts as present: only the driver could tell
  }
  return count < present ? count : present;
}

HostFacts ReadHostFacts(const Environment& environment) {
  HostFacts facts;
  facts.cpu_count = CountCpus();
  facts.gpu_count = CountGpus(environment);
  facts.xpu_count = CountIntelDevices();
  facts.host_name = HostName();
  char cwd[PATH_MAX];
  if (getcwd(cwd, sizeof(cwd)) != nullptr && cwd[0] == '/') facts.cwd = cwd;
  facts.cwd_writable = !facts.cwd.empty() && access(".", W_OK) == 0;
  facts.binary_dir = BinaryDirectory();
  return facts;
}

std::string FindProgram(const Environment& environment, const std::string& name) {
  const auto executable = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return executable(name) ? name : "";
  for (const std::string& directory :
       Split(LookupOr(environment, "PATH", "/usr/local/bin:/usr/bin:/bin"), ':')) {
    const std::string path = (directory.empty() ? "." : directory) + "/" + name;
    if (executable(path)) return path;
  }
  return "";
}

}  // namespace paceline::cli
