// _native.set_command_line: what `ps` shows of a forked rank.
//
// A fork keeps the starter's command line, so people could not tell ranks from the starter, nor
// find them by their script. The kernel shows the memory where the arguments were put at exec; it
// is overwritten in place and never beyond its end, because the environment that follows may still
// be pointed to by libraries. A longer command line is cut.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {
namespace {

constexpr int kFieldsBeforeArgStart = 45;  // after the command's name; proc(5) numbers it 48

// False when the kernel does not say where the arguments are.
bool SetCommandLine(const std::string& arguments) {
  std::ifstream file("/proc/self/stat");
  std::string stat;
  if (!std::getline(file, stat)) return false;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeArgStart; ++i) fields >> skipped;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return false;
  char* memory = reinterpret_cast<char*>(begin);
  const size_t room = end - begin - 1;  // the last byte stays NUL: it says that nothing was moved
  const size_t used = std::min(arguments.size(), room);
  std::memcpy(memory, arguments.data(), used);
  std::memset(memory + used, '\0', room - used);
  return true;
}

}  // namespace

void BindCommandLine(nanobind::module_& module) {
  module.def("set_command_line", &SetCommandLine, nanobind::arg("arguments"));
}

}  // namespace paceline::bindings
