// _native.LivePlan: remembers which tensors a state holds, and checks that they are still the same.
//
// Asking a module and an optimizer for their state again in every step costs hundreds of
// milliseconds for 20,000 parameters. Their dicts hardly ever change; so each tensor is remembered
// with the dict and the key under which it was found, and a save only compares pointers. Whatever
// differs — another tensor, another address, shape or type, a dict that grew — means that the plan
// is made anew.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace paceline::bindings {

namespace nb = nanobind;

class LivePlan {
 public:
  // One entry of the state: the dict that has it or None, its key, the object there, its memory,
  // and the tensor whose form may change in place or None.
  using Found = std::tuple<nb::object, nb::object, nb::object, nb::object, nb::object>;

  // leaves: the tensors of the state; links: (dict, key, object), what leads to their dicts; sizes:
  // (dict, number of its entries).
  LivePlan(const std::vector<Found>& leaves,
           const std::vector<std::tuple<nb::dict, nb::object, nb::object>>& links,
           const std::vector<std::tuple<nb::dict, size_t>>& sizes)
      : links_(links), sizes_(sizes) {
    for (const auto& [container, key, object, memory, formed] : leaves) {
      leaves_.push_back({container, key, object, memory, formed, FormOf(formed)});
      addresses_.push_back(Address(memory));
    }
  }

  // Returns false if the state has changed, so that a new plan is needed.
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
      if (Address(leaf.memory) != addresses_[i] || !HasForm(leaf)) return false;
    }
    return true;
  }

  const std::vector<uintptr_t>& addresses() const { return addresses_; }

 private:
  // The form of a tensor. `x.t_()`, `x.resize_(…)` and `x.data = …` change it and may keep the
  // address.
  struct Form {
    nb::object shape;
    nb::object dtype;
    nb::object is_contiguous;
  };
  struct Leaf {
    nb::object container;
    nb::object key;
    nb::object object;
    nb::object memory;
    nb::object formed;
    Form form;
  };

  static bool Holds(const nb::object& dict, const nb::object& key, const nb::object& object) {
    PyObject* const found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
    if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found == object.ptr();
  }

  Form FormOf(const nb::object& tensor) const {
    if (tensor.is_none()) return {};
    return {Get(tensor, shape_), Get(tensor, dtype_), Call(tensor, is_contiguous_)};
  }

  bool HasForm(const Leaf& leaf) const {
    if (leaf.formed.is_none()) return true;
    // Types and truth values are one object each.
    if (!Get(leaf.formed, dtype_).is(leaf.form.dtype)) return false;
    if (!Call(leaf.formed, is_contiguous_).is(leaf.form.is_contiguous)) return false;
    const nb::object shape = Get(leaf.formed, shape_);
    const int is_equal = PyObject_RichCompareBool(shape.ptr(), leaf.form.shape.ptr(), Py_EQ);
    if (is_equal < 0) throw nb::python_error();
    return is_equal == 1;
  }

  static nb::object Interned(const char* name) {
    return nb::steal(PyUnicode_InternFromString(name));
  }

  static nb::object Get(const nb::object& from, const nb::object& name) {
    nb::object found = nb::steal(PyObject_GetAttr(from.ptr(), name.ptr()));
    if (!found.is_valid()) throw nb::python_error();
    return found;
  }

  static nb::object Call(const nb::object& on, const nb::object& method) {
    nb::object found = nb::steal(PyObject_CallMethodNoArgs(on.ptr(), method.ptr()));
    if (!found.is_valid()) throw nb::python_error();
    return found;
  }

  uintptr_t Address(const nb::object& memory) const {
    return nb::cast<uintptr_t>(Call(memory, data_ptr_));
  }

  std::vector<Leaf> leaves_;
  std::vector<uintptr_t> addresses_;  // of the leaves
  std::vector<std::tuple<nb::dict, nb::object, nb::object>> links_;
  std::vector<std::tuple<nb::dict, size_t>> sizes_;
  nb::object data_ptr_ = Interned("data_ptr");
  nb::object shape_ = Interned("shape");
  nb::object dtype_ = Interned("dtype");
  nb::object is_contiguous_ = Interned("is_contiguous");
};

}  // namespace paceline::bindings
