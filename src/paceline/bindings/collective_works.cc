#include "paceline/bindings/collective_works.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {
namespace {

constexpr std::chrono::milliseconds kLook(50);

bool IsComplete(const nb::object& work) {
  static PyObject* const name = PyUnicode_InternFromString("is_completed");
  const nb::object answer = nb::steal(PyObject_CallMethodNoArgs(work.ptr(), name));
  if (!answer.is_valid()) PyErr_Clear();  // of a device that has failed
  return answer.ptr() == Py_True;
}

int64_t NowNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// The wrapper of torch's `Work.wait`; `self` is a capsule of the CollectiveWorks.
PyObject* WaitMethod(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  auto* const works = static_cast<CollectiveWorks*>(PyCapsule_GetPointer(self, nullptr));
  return works->Wait(args, static_cast<size_t>(count), names).release().ptr();
}

// Python's own way to store a method of this kind: through void (*)(), which newer compilers
// accept.
PyMethodDef wait_method = {"wait",
                           reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&WaitMethod)),
                           METH_FASTCALL | METH_KEYWORDS, nullptr};

}  // namespace

bool CollectiveWorks::Finish(uint64_t number) {
  const auto found = std::find_if(works_.begin(), works_.end(),
                                  [number](const Followed& one) { return one.number == number; });
  if (found == works_.end()) return false;         // the other thread was faster
  const nb::object work = std::move(found->work);  // freed last: its destructor is torch's
  works_.erase(found);
  count_.store(works_.size(), std::memory_order_relaxed);
  writer_->Complete(number);
  return true;
}

void CollectiveWorks::EndWait() {
  if (!awaited_.has_value()) return;
  const uint64_t number = *awaited_;
  awaited_.reset();
  writer_->Complete(number);
}

void CollectiveWorks::Add(uint64_t number, nb::object work) {
  if (has_left_) return;
  works_.push_back({number, std::move(work)});
  if (works_.size() > kWorksMax) Finish(works_.front().number);
  count_.store(works_.size(), std::memory_order_relaxed);
  if (has_begun_) return;
  has_begun_ = true;
  begin_();
}

size_t CollectiveWorks::Look() {
  // The script's thread is past the collective that it waited for, or did not wait for.
  if (awaited_.has_value() && IsOfScript()) EndWait();
  size_t finished = 0;
  while (!works_.empty()) {
    const Followed oldest = works_.front();
    if (!IsComplete(oldest.work)) break;
    finished += Finish(oldest.number) ? 1 : 0;
  }
  return finished;
}

void CollectiveWorks::LookAtAll() {
  if (Look() > 0) return;
  const std::deque<Followed> works = works_;
  for (const Followed& one : works) {
    if (IsComplete(one.work)) Finish(one.number);
  }
}

bool CollectiveWorks::Sleep() {
  const nb::gil_scoped_release release;
  std::unique_lock lock(mutex_);
  do {
    wakes_.wait_for(lock, kLook);
  } while (!ends_ && count_.load(std::memory_order_relaxed) == 0);
  return !ends_;
}

void CollectiveWorks::Stop() {
  const nb::gil_scoped_release release;
  const std::lock_guard lock(mutex_);
  ends_ = true;
  wakes_.notify_all();
}

void CollectiveWorks::Leave() {
  // Kept: a Work that is destroyed in a child would wait for threads that the child lacks.
  kept_.swap(works_);
  count_.store(0, std::memory_order_relaxed);
  awaited_.reset();
  has_left_ = true;
}

nb::object CollectiveWorks::WrapWait(nb::object wait) {
  wait_ = std::move(wait);
  const nb::object self = nb::steal(PyCapsule_New(this, nullptr, nullptr));
  const nb::object function = nb::steal(PyCFunction_New(&wait_method, self.ptr()));
  return nb::steal(PyInstanceMethod_New(function.ptr()));  // a plain C function binds no `self`
}

nb::object CollectiveWorks::Wait(PyObject* const* args, size_t count, PyObject* names) {
  if (!IsOfScript()) return nb::steal(PyObject_Vectorcall(wait_.ptr(), args, count, names));
  const int64_t begun = NowNanoseconds();
  nb::object result = nb::steal(PyObject_Vectorcall(wait_.ptr(), args, count, names));
  writer_->Waited(begun);
  EndWait();  // after an error, too: the thread has left the collective
  return result;
}

void BindCollectiveWorks(nb::module_& module) {
  nb::class_<CollectiveWorks>(module, "CollectiveWorks")
      .def(nb::init<client::FlightWriter*, nb::object>(), nb::arg("writer"), nb::arg("begin"),
           nb::keep_alive<1, 2>())
      .def("add", &CollectiveWorks::Add, nb::arg("number"), nb::arg("work"))
      .def("look", &CollectiveWorks::Look)
      .def("look_at_all", &CollectiveWorks::LookAtAll)
      .def("sleep", &CollectiveWorks::Sleep)
      .def("stop", &CollectiveWorks::Stop)
      .def("leave", &CollectiveWorks::Leave)
      .def(
          "wrap_wait",
          [](nb::handle self, nb::object wait) {
            self.inc_ref();  // torch keeps the method until the process ends
            return nb::cast<CollectiveWorks&>(self).WrapWait(std::move(wait));
          },
          nb::arg("wait"));
}

}  // namespace paceline::bindings
