// _native.set_command_line: what `ps` shows of a forked rank.
//
// A fork keeps the starter's command line, so `ps` would show ranks like the starter, and without
// their script. The kernel shows the memory into which exec put the arguments. This function
// overwrites that memory in place. It never writes beyond the end, because the environment follows
// there and libraries may point into it. A longer command line is cut.
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

// Returns false if the kernel does not say where the arguments are.
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
  // The last byte stays NUL. Otherwise the kernel assumes that the text goes on in the environment.
  const size_t room = end - begin - 1;
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
