#include "capture/world/write_log.h"

namespace braze::capture {

namespace {

Ref interned(PyObject* name) {
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  return Ref::steal(name);
}

}  // namespace

const Write* WriteLog::find(Place place) const {
  auto it = index_.find(place);
  PyObject* name = place.name;
  if (it == index_.end() && name && PyUnicode_CheckExact(name) && !PyUnicode_CHECK_INTERNED(name)) {
    Ref same = interned(name);
    it = index_.find({place.home, same.get(), place.is_slot});
  }
  return it == index_.end() ? nullptr : &log_[it->second];
}

void WriteLog::write(Write::Kind kind, PyObject* owner, PyObject* home, PyObject* name,
                     PyObject* value) {
  ++count_;
  Ref key = name ? interned(name) : Ref();
  const bool is_slot = kind == Write::Kind::kSlot;
  auto [it, fresh] = index_.try_emplace({home, key.get(), is_slot}, log_.size());
  if (fresh) {
    log_.push_back({kind, Ref::borrow(owner), key, Ref(), Ref::borrow(home)});
    if (is_slot) {
      has_slots_ = true;
      held_.push_back(Ref::borrow(owner));
    } else {
      note(home);
    }
  }
  log_[it->second].value = Ref::borrow(value);
}

void WriteLog::note(PyObject* home) {
  if (is_unwritten(home)) held_.push_back(Ref::borrow(home));
  written_homes_[home] = true;
}

void WriteLog::forget(PyObject* home, PyObject* name) {
  index_.erase({home, interned(name).get(), false});
}

bool WriteLog::move_into(PyObject* dict_copy, PyObject* dict) {
  for (Write& write : log_) {
    if (write.home.get() != dict || write.kind == Write::Kind::kSlot || !write.owner) continue;
    if (write.value) {
      if (PyDict_SetItem(dict_copy, write.name.get(), write.value.get()) < 0) return false;
    } else if (PyDict_DelItem(dict_copy, write.name.get()) < 0) {
      PyErr_Clear();
    }
    index_.erase({dict, write.name.get(), false});
    write.owner = Ref();
  }
  note(dict);
  return true;
}

}  // namespace braze::capture
