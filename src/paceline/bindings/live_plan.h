// _native.LivePlan: which tensors a state holds, remembered, and seen to be still the same ones.
//
// Asking a module and an optimizer for their state again in every step costs hundreds of
// milliseconds for 20,000 parameters. Their dicts hardly ever change; so each tensor is remembered
// with the dict and the key under which it was found, and a save only compares pointers. Whatever
// differs — another tensor, another address, a dict that grew — means that the plan is made anew.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace paceline::bindings {

namespace nb = nanobind;

class LivePlan {
 public:
  // leaves: (dict or None, key, what stands there, its memory), the tensors of the state; links:
  // (dict, key, object), what leads to their dicts; sizes: (dict, number of its entries).
  LivePlan(const std::vector<std::tuple<nb::object, nb::object, nb::object, nb::object>>& leaves,
           const std::vector<std::tuple<nb::dict, nb::object, nb::object>>& links,
           const std::vector<std::tuple<nb::dict, size_t>>& sizes)
      : links_(links), sizes_(sizes), data_ptr_(nb::steal(PyUnicode_InternFromString("data_ptr"))) {
    for (const auto& [container, key, object, memory] : leaves) {
      leaves_.push_back({container, key, object, memory});
      addresses_.push_back(Address(memory));
    }
  }

  // False: make another plan.
  bool IsCurrent() const {
    for (const auto& [dict, size] : sizes_) {
      if (static_cast<size_t>(PyDict_Size(dict.ptr())) != size) return false;
    }
    for (const auto& [dict, key, object] : links_) {
      if (!Holds(dict, key, object)) return false;
    }
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Leaf& leaf = leaves_[i];
      if (!leaf.container.is_none() && !Holds(leaf.container, leaf.key, leaf.object)) return false;
      if (Address(leaf.memory) != addresses_[i]) return false;
    }
    return true;
  }

  const std::vector<uintptr_t>& addresses() const { return addresses_; }

 private:
  struct Leaf {
    nb::object container;
    nb::object key;
    nb::object object;
    nb::object memory;
  };

  static bool Holds(const nb::object& dict, const nb::object& key, const nb::object& object) {
    PyObject* const found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
    if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found == object.ptr();
  }

  uintptr_t Address(const nb::object& memory) const {
    const nb::object number = nb::steal(PyObject_CallMethodNoArgs(memory.ptr(), data_ptr_.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    return nb::cast<uintptr_t>(number);
  }

  std::vector<Leaf> leaves_;
  std::vector<uintptr_t> addresses_;  // of the leaves
  std::vector<std::tuple<nb::dict, nb::object, nb::object>> links_;
  std::vector<std::tuple<nb::dict, size_t>> sizes_;
  nb::object data_ptr_;
};

}  // namespace paceline::bindings
