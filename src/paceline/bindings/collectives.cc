// _native.CollectiveRecorder: records each collective of one process group, around torch's call.
//
// Its two hooks run in each collective, mostly with cold caches. So they call no Python function
// and read as few attributes of torch's objects as they can. They raise no exception: a record with
// less in it is better than one in a collective. The interpreter lock guards the state.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/bindings/call_sites.h"
#include "paceline/bindings/collective_works.h"

namespace paceline::bindings {
namespace {

namespace nb = nanobind;
using client::FlightEvent;

// More than torch has operations, of which it numbers about 20.
constexpr int kOperationsMax = 64;

struct Operation {
  // Whether its Work has no future. Such a Work never says that it is complete, as that of gloo's
  // reduce_scatter.
  enum class Silence { kUnknown, kNo, kYes };

  uint32_t name = kRingNoName;
  bool is_counted = true;  // false: a send or receive between two ranks
  Silence silence = Silence::kUnknown;
};

// Names of attributes, interned.
PyObject* const* AttributeNames() {
  static PyObject* const names[] = {
      PyUnicode_InternFromString("name"),           PyUnicode_InternFromString("value"),
      PyUnicode_InternFromString("async_op"),       PyUnicode_InternFromString("input_tensors"),
      PyUnicode_InternFromString("output_tensors"), PyUnicode_InternFromString("work"),
      PyUnicode_InternFromString("dtype"),          PyUnicode_InternFromString("is_cpu"),
      PyUnicode_InternFromString("nbytes"),         PyUnicode_InternFromString("get_future")};
  return names;
}
enum Attribute {
  kName,
  kValue,
  kAsync,
  kInputs,
  kOutputs,
  kWork,
  kDtype,
  kIsCpu,
  kBytes,
  kGetFuture
};

// The attribute; null if there is none.
nb::object Read(nb::handle object, Attribute attribute) {
  if (!object.is_valid()) return {};
  PyObject* const value = PyObject_GetAttr(object.ptr(), AttributeNames()[attribute]);
  if (value == nullptr) PyErr_Clear();
  return nb::steal(value);
}

bool IsFalse(const nb::object& value) { return value.ptr() == Py_False; }
bool IsTrue(const nb::object& value) { return value.ptr() == Py_True; }

uint64_t WholeOf(const nb::object& value) {
  if (!value.is_valid()) return 0;
  const unsigned long long number = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  return 0;
}

// Silent: `get_future` raises.
Operation::Silence SilenceOf(const nb::object& work) {
  const nb::object future =
      nb::steal(PyObject_CallMethodNoArgs(work.ptr(), AttributeNames()[kGetFuture]));
  if (future.is_valid()) return Operation::Silence::kNo;
  PyErr_Clear();
  return Operation::Silence::kYes;
}

bool IsCompleted(const nb::object& work) {
  const nb::object answer = nb::steal(PyObject_CallMethod(work.ptr(), "is_completed", nullptr));
  if (!answer.is_valid()) PyErr_Clear();
  return IsTrue(answer);
}

// Tensors in a list of torch.
struct Sent {
  uint64_t bytes = 0;
  uint32_t dtype = kRingNoName;
  bool is_on_host = false;  // all of them, and there is at least one
};

class CollectiveRecorder {
 public:
  // `name(text)` returns the number of a text in the ring, `operation(kind)` the text of torch's
  // HookOpName, and `group()` the group's text; it is called at the first collective.
  CollectiveRecorder(CollectiveWorks* works, CallSites* sites, nb::object name,
                     nb::object operation, nb::object group)
      : works_(works),
        sites_(sites),
        name_(std::move(name)),
        operation_text_(std::move(operation)),
        group_text_(std::move(group)) {}

  // torch's hook before a collective.
  void Before(nb::handle call) {
    works_->Look();
    Say();
    const CallSites::Site site = sites_->Find();
    Operation& operation = OperationOf(call, site);
    nb::object tensors = Read(call, kInputs);
    if (IsEmpty(tensors)) tensors = Read(call, kOutputs);
    const Sent sent = SentIn(tensors);
    const uint64_t number = Write(operation, sent, site.line);
    // In such a call the script's thread waits in `Work.wait` before it does anything else. On a
    // GPU the end of that wait is not the end of the collective.
    const bool is_waited_for =
        sent.is_on_host && works_->IsOfScript() && IsFalse(Read(call, kAsync));
    const unsigned long thread = PyThread_get_thread_ident();
    Forget(thread);  // a call that raised never comes to `After`
    if (is_waited_for) {
      works_->AwaitNext(number);
    } else {
      begun_.push_back({thread, number, &operation});
    }
  }

  // torch's hook after it.
  void After(nb::handle call) {
    if (begun_.empty()) return;
    const auto found = FindBegun(PyThread_get_thread_ident());
    if (found == begun_.end()) return;
    const Begun begun = *found;
    begun_.erase(found);
    Follow(begun.number, *begun.operation, Read(call, kWork));
  }

  // For a torch without hooks: this rank enters `operation` with a list of tensors. Returns the
  // record's number.
  uint64_t Begin(const std::string& operation, nb::list tensors) {
    works_->Look();
    Say();
    return Write(Learn(operation), SentIn(tensors), sites_->Find().line);
  }

  // The call was issued. It is complete when `work` says so, or at once without a work.
  void End(uint64_t number, const std::string& operation, nb::object work) {
    Follow(number, Learn(operation), std::move(work));
  }

 private:
  struct Begun {
    unsigned long thread = 0;
    uint64_t number = 0;
    Operation* operation = nullptr;
  };

  static bool IsEmpty(const nb::object& tensors) {
    return !tensors.is_valid() || !PyList_Check(tensors.ptr()) ||
           PyList_GET_SIZE(tensors.ptr()) == 0;
  }

  std::vector<Begun>::iterator FindBegun(unsigned long thread) {
    return std::find_if(begun_.begin(), begun_.end(),
                        [thread](const Begun& one) { return one.thread == thread; });
  }
  void Forget(unsigned long thread) {
    const auto found = FindBegun(thread);
    if (found != begun_.end()) begun_.erase(found);
  }

  uint32_t Name(nb::handle text) { return nb::cast<uint32_t>(name_(text)); }

  Operation& Learn(const std::string& text) {
    if (operations_.empty()) group_ = Name(group_text_());
    const auto [found, is_new] = operations_.try_emplace(text);
    if (is_new) {
      found->second.name = Name(nb::str(text.c_str(), text.size()));
      found->second.is_counted = text != "send" && text != "recv";
    }
    return found->second;
  }

  // Reading the kind takes 1 µs, so it is remembered with the instruction that makes the call.
  Operation& OperationOf(nb::handle call, const CallSites::Site& site) {
    int kind = site.operation == nullptr ? CallSites::kNoOperation : *site.operation;
    nb::object name;
    if (kind == CallSites::kNoOperation) {
      name = Read(call, kName);
      kind = static_cast<int>(std::min<uint64_t>(WholeOf(Read(name, kValue)), kOperationsMax - 1));
      if (site.operation != nullptr) *site.operation = kind;
    }
    Operation*& known = by_kind_[static_cast<size_t>(kind)];
    if (known == nullptr) {
      if (!name.is_valid()) name = Read(call, kName);
      known = &Learn(name.is_valid() ? nb::cast<std::string>(operation_text_(name)) : "unknown");
    }
    return *known;
  }

  Sent SentIn(const nb::object& tensors) {
    Sent sent;
    if (IsEmpty(tensors)) return sent;
    sent.is_on_host = true;
    const Py_ssize_t size = PyList_GET_SIZE(tensors.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) {
      const nb::handle tensor = PyList_GET_ITEM(tensors.ptr(), i);
      sent.bytes += WholeOf(Read(tensor, kBytes));
      sent.is_on_host = sent.is_on_host && IsTrue(Read(tensor, kIsCpu));
    }
    sent.dtype = DtypeOf(Read(PyList_GET_ITEM(tensors.ptr(), 0), kDtype));
    return sent;
  }

  uint32_t DtypeOf(const nb::object& dtype) {
    if (!dtype.is_valid()) return kRingNoName;
    const auto known = std::find_if(dtypes_.begin(), dtypes_.end(),
                                    [&dtype](const auto& one) { return one.first.is(dtype); });
    if (known != dtypes_.end()) return known->second;
    std::string text = nb::cast<std::string>(nb::str(dtype));
    if (text.starts_with("torch.")) text.erase(0, 6);
    dtypes_.emplace_back(dtype, Name(nb::str(text.c_str(), text.size())));
    return dtypes_.back().second;
  }

  uint64_t Write(const Operation& operation, const Sent& sent, uint32_t line) {
    FlightEvent event{.group = group_,
                      .operation = operation.name,
                      .dtype = sent.dtype,
                      .site = line,
                      .bytes = sent.bytes};
    if (operation.is_counted) {
      event.sequence = ++sequence_;
    } else {
      event.kind = FlightKind::kPointToPoint;
    }
    return works_->writer().Begin(event);
  }

  // Marks silent collectives complete: this rank is past them, its peers perhaps not.
  void Say() {
    if (unsaid_.empty()) return;
    for (const uint64_t number : std::exchange(unsaid_, {})) works_->writer().Complete(number);
  }

  void Follow(uint64_t number, Operation& operation, nb::object work) {
    if (!work.is_valid() || work.is_none()) {
      works_->writer().Complete(number);
      return;
    }
    if (operation.silence == Operation::Silence::kUnknown) operation.silence = SilenceOf(work);
    if (operation.silence == Operation::Silence::kYes && !IsCompleted(work)) {
      unsaid_.push_back(number);
    } else {
      works_->Add(number, std::move(work));
    }
  }

  CollectiveWorks* works_;
  CallSites* sites_;
  nb::object name_;
  nb::object operation_text_;
  nb::object group_text_;
  uint32_t group_ = kRingNoName;
  uint64_t sequence_ = 0;
  std::map<std::string, Operation> operations_;
  std::array<Operation*, kOperationsMax> by_kind_{};
  std::vector<std::pair<nb::object, uint32_t>> dtypes_;
  std::vector<Begun> begun_;  // at most one a thread
  std::vector<uint64_t> unsaid_;
};

}  // namespace

void BindCollectives(nb::module_& module) {
  nb::class_<CollectiveRecorder>(module, "CollectiveRecorder")
      .def(nb::init<CollectiveWorks*, CallSites*, nb::object, nb::object, nb::object>(),
           nb::arg("works"), nb::arg("sites"), nb::arg("name"), nb::arg("operation"),
           nb::arg("group"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("before", &CollectiveRecorder::Before, nb::arg("call"))
      .def("after", &CollectiveRecorder::After, nb::arg("call"))
      .def("begin", &CollectiveRecorder::Begin, nb::arg("operation"), nb::arg("tensors"))
      .def("end", &CollectiveRecorder::End, nb::arg("number"), nb::arg("operation"),
           nb::arg("work").none());
}

}  // namespace paceline::bindings
