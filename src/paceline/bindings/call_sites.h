// _native.CallSites: the script's line from which a collective is called.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::bindings {

namespace nb = nanobind;

// The number of the innermost line outside all libraries, for example "train.py:44". If there is
// none, because the script is itself an installed package, it is the innermost line outside torch.
// In a thread of autograd it is "backward".
//
// Walks the frames of the calling thread and remembers each instruction, so that a call costs a few
// comparisons. The interpreter lock guards the state.
class CallSites {
 public:
  // The kind of a source file. `kind(path)` returns it as a number.
  enum class FileKind : uint8_t { kScript = 0, kPackage = 1, kTorch = 2, kCollectives = 3 };
  static constexpr int kNoOperation = -1;

  struct Site {
    uint32_t line = 0;
    // What the innermost instruction calls: one operation of torch, whose number the caller stores
    // here. kNoOperation: not known yet. Null: the instruction may call several operations.
    int* operation = nullptr;
  };

  // `name(text)` returns the number of a text in the ring.
  CallSites(nb::object name, nb::object kind) : name_(std::move(name)), kind_(std::move(kind)) {}

  Site Find();
  // The line with a text behind it, as "train.py:44, at 10.0.0.1:29400".
  uint32_t Line(const std::string& addition);

 private:
  struct Instruction {
    int offset = 0;
    uint32_t line = 0;
    int operation = kNoOperation;
  };
  struct Code {
    FileKind kind = FileKind::kTorch;
    std::vector<Instruction> instructions;
  };
  struct Frames {
    nb::object frame;      // of the script, or of a package; null: there is none
    Code* code = nullptr;  // of `frame`
    nb::object innermost;  // null: this thread runs no Python
    Code* innermost_code = nullptr;
  };

  Frames Walk();
  Code& CodeOf(nb::handle code);
  Instruction& InstructionOf(const nb::object& frame, Code* code);
  uint32_t LineOf(const Frames& frames);
  uint32_t Name(const std::string& text);

  nb::object name_;
  nb::object kind_;
  // By code object, which is kept alive, so that no other one gets its address.
  std::unordered_map<PyObject*, std::pair<nb::object, Code>> codes_;
  uint32_t backward_ = 0;
};

}  // namespace paceline::bindings
