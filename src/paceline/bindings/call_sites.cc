#include "paceline/bindings/call_sites.h"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/bindings/bindings.h"

namespace paceline::bindings {
namespace {

// A script that compiles code in a loop makes new code objects without end. At this count all are
// forgotten.
constexpr size_t kCodesMax = 4096;

std::string FileOf(nb::handle code) {
  const nb::object path = nb::steal(PyObject_GetAttrString(code.ptr(), "co_filename"));
  const char* const text = path.is_valid() ? PyUnicode_AsUTF8(path.ptr()) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "" : text;
}

nb::object CodeObject(const nb::object& frame) {
  return nb::steal(
      reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
}

std::string TextOf(const nb::object& frame) {
  const std::string file = FileOf(CodeObject(frame));
  const int line = PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr()));
  return Concat(file.substr(file.rfind('/') + 1), ":", line);
}

}  // namespace

uint32_t CallSites::Name(const std::string& text) {
  return nb::cast<uint32_t>(name_(nb::str(text.c_str(), text.size())));
}

CallSites::Code& CallSites::CodeOf(nb::handle code) {
  const auto found = codes_.find(code.ptr());
  if (found != codes_.end()) return found->second.second;
  const std::string file = FileOf(code);
  const auto kind = nb::cast<uint32_t>(kind_(nb::str(file.c_str(), file.size())));
  auto& made = codes_[code.ptr()];
  made.first = nb::borrow(code);
  made.second.kind = static_cast<FileKind>(std::min(kind, 3U));
  return made.second;
}

CallSites::Frames CallSites::Walk() {
  if (codes_.size() >= kCodesMax) codes_.clear();
  Frames found;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid()) {
    const nb::object object = CodeObject(frame);
    Code& code = CodeOf(object);
    if (!found.innermost.is_valid()) {
      found.innermost = frame;
      found.innermost_code = &code;
    }
    const bool is_first_package = code.kind == FileKind::kPackage && !found.frame.is_valid();
    if (is_first_package || code.kind == FileKind::kScript) {
      found.frame = frame;
      found.code = &code;
    }
    if (code.kind == FileKind::kScript) break;
    frame = nb::steal(reinterpret_cast<PyObject*>(
        PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
  }
  return found;
}

CallSites::Instruction& CallSites::InstructionOf(const nb::object& frame, Code* code) {
  const int offset = PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame.ptr()));
  const auto found =
      std::find_if(code->instructions.begin(), code->instructions.end(),
                   [offset](const Instruction& known) { return known.offset == offset; });
  if (found != code->instructions.end()) return *found;
  code->instructions.push_back({.offset = offset});
  return code->instructions.back();
}

uint32_t CallSites::LineOf(const Frames& frames) {
  if (!frames.frame.is_valid()) {
    if (backward_ == 0) backward_ = Name("backward");
    return backward_;
  }
  Instruction& instruction = InstructionOf(frames.frame, frames.code);
  if (instruction.line == 0) instruction.line = Name(TextOf(frames.frame));
  return instruction.line;
}

CallSites::Site CallSites::Find() {
  const Frames frames = Walk();
  Site site{.line = LineOf(frames)};
  if (frames.innermost_code != nullptr && frames.innermost_code->kind == FileKind::kCollectives) {
    site.operation = &InstructionOf(frames.innermost, frames.innermost_code).operation;
  }
  return site;
}

uint32_t CallSites::Line(const std::string& addition) {
  const Frames frames = Walk();
  if (addition.empty()) return LineOf(frames);
  return Name(frames.frame.is_valid() ? TextOf(frames.frame) + addition : "backward" + addition);
}

void BindCallSites(nb::module_& module) {
  nb::class_<CallSites>(module, "CallSites")
      .def(nb::init<nb::object, nb::object>(), nb::arg("name"), nb::arg("kind"))
      .def("line", &CallSites::Line, nb::arg("addition") = "");
}

}  // namespace paceline::bindings
